"""Where two models differ or both fail: rows to read, and the same as CSV."""

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
"""Between several golds, or the two texts of a pair, in one cell of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """An example that at least one of two models got wrong.

    Attributes:
        id: id of the example.
        text: the question, or the text or texts.
        golds: right answers or label; none where the right answer is none.
        first: the first model's answer; "" is "no answer".
        second: the second model's.
        first_right: whether it is exactly right.
        second_right: the same of the second.
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
    """Questions that at least one model answered wrongly, in their order.

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
    ours, theirs = (score_questions(golds, answers).exact == 1.0 for answers in (first, second))
    return tuple(
        ErrorRow(
            id=examples.ids[row],
            text=examples.questions[row],
            golds=tuple(dict.fromkeys(golds[examples.ids[row]])),
            first=first[examples.ids[row]],
            second=second[examples.ids[row]],
            first_right=bool(ours[row]),
            second_right=bool(theirs[row]),
        )
        for row in np.flatnonzero(~(ours & theirs)).tolist()
    )


def compare_labels(
    examples: Texts, labels: Sequence[str], *, first: IntArray, second: IntArray
) -> tuple[ErrorRow, ...]:
    """Texts that at least one model gave a wrong label, in their order.

    Args:
        examples: texts with class numbers.
        labels: words in class order.
        first: (rows,) class numbers by the first model.
        second: those by the second.

    Raises:
        BertVisionError: there are more or fewer predictions than texts, or a class that has no label.
    """
    golds = examples.targets.astype(np.int64)
    check_classes(golds, len(labels), "golds")
    for numbers, which in ((first, "first"), (second, "second")):
        check_rows(len(examples), len(numbers), f"predictions of the {which} model")
        check_classes(numbers, len(labels), f"predictions of the {which} model")
    words = [(label,) for label in labels]
    return _text_errors(examples, *([words[number] for number in numbers] for numbers in (golds, first, second)))


def compare_tags(examples: Texts, labels: Sequence[str], *, first: IntArray, second: IntArray) -> tuple[ErrorRow, ...]:
    """Texts of which at least one model did not give all labels, and no others, in their order.

    Args:
        examples: texts with tags.
        labels: words in class order.
        first: (rows, labels) by the first model, 1 where it gave the label.
        second: those by the second.

    Raises:
        BertVisionError: there are more or fewer predictions than texts.
    """
    for tags, which in ((first, "first"), (second, "second")):
        check_rows(len(examples), len(tags), f"predictions of the {which} model")

    def words(tags: IntArray) -> list[tuple[str, ...]]:
        return [tuple(label for label, there in zip(labels, row, strict=True) if there) for row in tags.tolist()]

    return _text_errors(examples, words(examples.targets.astype(np.int64)), words(first), words(second))


def _text_errors(
    examples: Texts,
    golds: Sequence[tuple[str, ...]],
    first: Sequence[tuple[str, ...]],
    second: Sequence[tuple[str, ...]],
) -> tuple[ErrorRow, ...]:
    """Texts whose labels by one of the models are others than the right ones."""
    return tuple(
        ErrorRow(
            id=examples.ids[row],
            text=examples.texts[row] + ("" if examples.pairs is None else SEPARATOR + examples.pairs[row]),
            golds=gold,
            first=SEPARATOR.join(ours),
            second=SEPARATOR.join(theirs),
            first_right=ours == gold,
            second_right=theirs == gold,
        )
        for row, (gold, ours, theirs) in enumerate(zip(golds, first, second, strict=True))
        if not ours == theirs == gold
    )


def error_csv(rows: Iterable[ErrorRow], *, first: str = "first", second: str = "second") -> str:
    """Rows as CSV with a header, as RFC 4180 has it; columns of the models carry their names."""
    text = io.StringIO()
    writer = csv.writer(text)
    names = {"first": first, "second": second, "first_right": f"{first} right", "second_right": f"{second} right"}
    writer.writerow([names.get(field.name, field.name) for field in fields(ErrorRow)])
    for row in rows:
        cells = asdict(row) | {"golds": SEPARATOR.join(row.golds)}
        writer.writerow([str(cell).lower() if isinstance(cell, bool) else cell for cell in cells.values()])
    return text.getvalue()
