"""Grids in a suite's file: a table with `each` is expanded into one table for every combination of its values."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from bertvision.errors import BertVisionError

EACH = "each"
"""The key whose table lists the values of other keys."""


def expand(table: Mapping[str, Any], named: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the table and the values of `each` for every combination of these, the last key varying fastest.

    Args:
        table: table of the file; without `each` it is yielded once, unchanged.
        named: keys of the texts in which `{KEY}` is replaced by a value, such as `name`.

    Raises:
        BertVisionError: `each` is no table of non-empty lists, or one of its keys is also in the table, or in none of
            the texts.

    >>> [one["name"] for one, _ in expand({"name": "{task} 8", "each": {"task": ["cola", "rte"]}}, ["name"])]
    ['cola 8', 'rte 8']
    """
    each = table.get(EACH, {})
    texts = {key: str(table[key]) for key in named if key in table}
    where = ", ".join(f"{key} '{text}'" for key, text in texts.items())
    if not isinstance(each, dict) or not all(isinstance(values, list) and values for values in each.values()):
        raise BertVisionError(
            f'each beside {where} is {each!r}; words with lists are expected, such as {{ task = ["cola", "rte"] }}.'
        )
    for word in each:
        if word in table:
            raise BertVisionError(f"{word} beside {where} stands in each, too; leave it out once.")
        if not any(_placeholder(word) in text for text in texts.values()):
            raise BertVisionError(
                f"each lists {word}, and {where} does not say {_placeholder(word)}; all would be the same."
            )
    rest = {key: value for key, value in table.items() if key != EACH}
    for combination in product(*each.values()):
        values = dict(zip(each, combination, strict=True))
        yield rest | {key: _fill(text, values) for key, text in texts.items()}, values


def _placeholder(word: str) -> str:
    return f"{{{word}}}"


def _fill(text: str, values: Mapping[str, Any]) -> str:
    for word, value in values.items():
        text = text.replace(_placeholder(word), str(value))
    return text
