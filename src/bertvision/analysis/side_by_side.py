"""Two models side by side: the examples that at least one of them got wrong, also as CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from bertvision.analysis.checks import check_classes, check_rows
from bertvision.errors import BertVisionError
from bertvision.evaluation.squad_metric import score_questions
from bertvision.tasks.examples import IntArray, Questions, Texts

SEPARATOR = " | "
"""Separates several golds or labels, or the two texts of a pair, in one cell of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """An example that at least one of two models got wrong.

    Attributes:
        id: id of the example.
        text: the question, the text, or the two texts of a pair.
        golds: gold answers or labels; empty if the question has no answer, or the text no label.
        first: the first model's answer or labels; "" is "no answer" or no label.
        second: those of the second model.
        first_right: whether the first model is exactly right.
        second_right: whether the second model is.
    """

    id: str
    text: str
    golds: tuple[str, ...]
    first: str
    second: str
    first_right: bool
    second_right: bool


def compare_answers(
    examples: Questions, *, first: Mapping[str, str], second: Mapping[str, str]
) -> tuple[ErrorRow, ...]:
    """The questions that at least one model answered wrongly, in order.

    Args:
        examples: the questions.
        first: answers of the first model by id; "" for "no answer".
        second: answers of the second model.

    Raises:
        BertVisionError: a model has no answer, not even an empty one, for some question.
    """
    golds = examples.golds()
    for answers, which in ((first, "first"), (second, "second")):
        absent = [key for key in examples.ids if key not in answers]
        if absent:
            raise BertVisionError(
                f"the {which} model has no answer for {len(absent):,} of {len(examples):,} questions, "
                f"first '{absent[0]}'. Expected one for every question; \"\" means no answer."
            )
    first_right, second_right = (score_questions(golds, answers).exact == 1.0 for answers in (first, second))
    return tuple(
        ErrorRow(
            id=examples.ids[row],
            text=examples.questions[row],
            golds=tuple(dict.fromkeys(golds[examples.ids[row]])),
            first=first[examples.ids[row]],
            second=second[examples.ids[row]],
            first_right=bool(first_right[row]),
            second_right=bool(second_right[row]),
        )
        for row in np.flatnonzero(~(first_right & second_right)).tolist()
    )


def compare_labels(
    examples: Texts, labels: Sequence[str], *, first: IntArray, second: IntArray
) -> tuple[ErrorRow, ...]:
    """The texts for which at least one model predicted a wrong label, in order.

    Args:
        examples: texts with class numbers.
        labels: names of the classes, in order.
        first: (rows,) class numbers predicted by the first model.
        second: (rows,) those of the second model.

    Raises:
        BertVisionError: there are more or fewer predictions than texts, or a class number without a label.
    """
    golds = examples.targets.astype(np.int64)
    check_classes(golds, len(labels), "golds")
    for numbers, which in ((first, "first"), (second, "second")):
        check_rows(len(examples), len(numbers), f"predictions of the {which} model")
        check_classes(numbers, len(labels), f"predictions of the {which} model")
    words = [(label,) for label in labels]
    return _text_errors(examples, *([words[number] for number in numbers] for numbers in (golds, first, second)))


def compare_tags(examples: Texts, labels: Sequence[str], *, first: IntArray, second: IntArray) -> tuple[ErrorRow, ...]:
    """The texts for which at least one model did not predict exactly the gold tags, in order.

    Args:
        examples: texts with tags.
        labels: names of the tags, in order.
        first: (rows, labels) 1 where the first model predicted the tag, else 0.
        second: (rows, labels) those of the second model.

    Raises:
        BertVisionError: there are more or fewer predictions than texts.
    """
    for tags, which in ((first, "first"), (second, "second")):
        check_rows(len(examples), len(tags), f"predictions of the {which} model")

    def words(tags: IntArray) -> list[tuple[str, ...]]:
        return [tuple(label for label, tag in zip(labels, row, strict=True) if tag) for row in tags.tolist()]

    return _text_errors(examples, words(examples.targets.astype(np.int64)), words(first), words(second))


def _text_errors(
    examples: Texts,
    golds: Sequence[tuple[str, ...]],
    first: Sequence[tuple[str, ...]],
    second: Sequence[tuple[str, ...]],
) -> tuple[ErrorRow, ...]:
    """The texts for which the labels of at least one model are not the gold labels."""
    return tuple(
        ErrorRow(
            id=examples.ids[row],
            text=examples.texts[row] + ("" if examples.pairs is None else SEPARATOR + examples.pairs[row]),
            golds=gold,
            first=SEPARATOR.join(one),
            second=SEPARATOR.join(other),
            first_right=one == gold,
            second_right=other == gold,
        )
        for row, (gold, one, other) in enumerate(zip(golds, first, second, strict=True))
        if not one == other == gold
    )


def error_csv(rows: Iterable[ErrorRow], *, first: str = "first", second: str = "second") -> str:
    """Rows as CSV (RFC 4180) with a header.

    Args:
        rows: examples that a model got wrong.
        first: name of the first model, for its columns.
        second: name of the second model.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    names = {"first": first, "second": second, "first_right": f"{first} right", "second_right": f"{second} right"}
    writer.writerow([names.get(field.name, field.name) for field in fields(ErrorRow)])
    for row in rows:
        cells = asdict(row) | {"golds": SEPARATOR.join(row.golds)}
        writer.writerow([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells.values()])
    return text.getvalue()
