"""Checks of arguments for all analyses, and shares of a total that may be 0."""

from collections.abc import Sequence

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import IntArray


def check_same_questions(expected: Sequence[str], got: Sequence[str], what: str) -> None:
    """Check that scores or predictions are of the expected questions, in the same order.

    Args:
        expected: ids of the questions.
        got: ids that the scores or predictions have.
        what: their name, in the plural, for messages.

    Raises:
        BertVisionError: the ids or their order differ.
    """
    if len(expected) != len(got):
        raise BertVisionError(f"{what} are for {len(got):,} questions; {len(expected):,} are expected.")
    for row, (key, other) in enumerate(zip(expected, got, strict=True)):
        if key != other:
            raise BertVisionError(
                f"{what} have question '{other}' in row {row}, '{key}' is expected. "
                "Score the predictions against the golds of these questions, in their order."
            )


def check_rows(expected: int, got: int, what: str) -> None:
    """Check that a column has as many rows as there are examples.

    Args:
        expected: number of examples.
        got: number of rows.
        what: name of the rows, in the plural, for messages.

    Raises:
        BertVisionError: the numbers differ.
    """
    if expected != got:
        raise BertVisionError(f"{got:,} {what} for {expected:,} examples. Expected one for each.")


def check_classes(numbers: IntArray, classes: int, what: str) -> None:
    """Check that class numbers are within 0 and `classes` - 1.

    Raises:
        BertVisionError: a number is below 0, or too large.
    """
    invalid = numbers[(numbers < 0) | (numbers >= classes)]
    if len(invalid):
        raise BertVisionError(f"{what} hold class {invalid[0]}; 0 to {classes - 1} are expected.")


def share(part: int, whole: int) -> float | None:
    """Part of a whole, 0 to 1; None if the whole is 0."""
    return part / whole if whole else None
