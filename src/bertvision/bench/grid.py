"""Grids in the file of a suite: one table with `each` stands for a table for every combination of its values."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from bertvision.errors import BertVisionError

EACH = "each"
"""The word that lists values of other words."""


def expand(table: Mapping[str, Any], named: Sequence[str]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every combination of the values that `each` lists, the last fastest: the table itself, and these values.

    Args:
        table: table of the file; without `each` it comes as it is, once.
        named: the words in which `{WORD}` stands for a value, such as `name`.

    Raises:
        BertVisionError: `each` is no table of lists, or a word of it is nowhere named or stands twice.

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
        if not any(_place(word) in text for text in texts.values()):
            raise BertVisionError(f"each lists {word}, and {where} does not say {_place(word)}; all would be the same.")
    rest = {key: value for key, value in table.items() if key != EACH}
    for combination in product(*each.values()):
        values = dict(zip(each, combination, strict=True))
        yield rest | {key: _filled(text, values) for key, text in texts.items()}, values


def _place(word: str) -> str:
    return f"{{{word}}}"


def _filled(text: str, values: Mapping[str, Any]) -> str:
    for word, value in values.items():
        text = text.replace(_place(word), str(value))
    return text
