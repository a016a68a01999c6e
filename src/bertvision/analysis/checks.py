"""What every analysis checks of its input, and shares that may be undefined."""

from collections.abc import Sequence

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import IntArray


def check_same_questions(expected: Sequence[str], got: Sequence[str], what: str) -> None:
    """Refuse scores or predictions of other questions, or of the same in another order.

    Raises:
        BertVisionError: the ids differ.
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
    """Refuse a column that has more or fewer rows than there are examples.

    Raises:
        BertVisionError: the numbers differ.
    """
    if expected != got:
        raise BertVisionError(f"{got:,} {what} for {expected:,} examples. Expected one for each.")


def check_classes(numbers: IntArray, classes: int, what: str) -> None:
    """Refuse class numbers that no class has.

    Raises:
        BertVisionError: a number is below 0, or too large.
    """
    beyond = numbers[(numbers < 0) | (numbers >= classes)]
    if len(beyond):
        raise BertVisionError(f"{what} hold class {beyond[0]}; 0 to {classes - 1} are expected.")


def share(part: int, whole: int) -> float | None:
    """Part of a whole, 0 to 1; None where the whole is nothing."""
    return part / whole if whole else None
