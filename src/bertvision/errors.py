"""The errors we raise on purpose; everything else is a bug and shows its traceback."""

import difflib
from collections.abc import Iterable
from typing import final


class BertVisionError(Exception):
    """A problem the user can fix: the message says what is wrong, what was expected and what to do next."""


class DataError(BertVisionError):
    """A file or data set that is missing, unreadable, or not of the expected form."""


@final
class WriteError(BertVisionError):
    """A file or folder that cannot be written.

    Attributes:
        reason: why, usually the message of the operating system.
    """

    def __init__(self, what: object, reason: str, otherwise: str = "") -> None:
        super().__init__(f"{what} cannot be written: {reason}. {otherwise}".rstrip())
        self.reason = reason


@final
class DivergedError(BertVisionError):
    """Training has diverged: the loss or a weight is not finite; a smaller learning rate may help."""


@final
class MisfitError(BertVisionError):
    """Options that conflict with each other or do not suit the encoder, task or machine; other options may work.

    A search records such a trial as failed and continues.
    """


@final
class UnknownNameError(BertVisionError):
    """A name that is not in its table; the message suggests the nearest known name and lists them all."""

    def __init__(self, what: str, got: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(got, names, n=1)
        guess = f" Did you mean '{near[0]}'?" if near else ""
        super().__init__(f"unknown {what} '{got}'.{guess} Known: {', '.join(names)}.")


@final
class MissingExtraError(BertVisionError):
    """An optional dependency that is needed and not installed; the message names the extra to install."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f"{purpose} needs the package '{package}'. Install it: pip install 'bertvision[{extra}]'")


def refuse(problems: Iterable[str]) -> None:
    """Raise one error that lists all problems, without repetitions; do nothing if there are none.

    Raises:
        BertVisionError: there is at least one problem.
    """
    listed = "; ".join(dict.fromkeys(problems))
    if listed:
        raise BertVisionError(f"{listed}.")


def first_line(error: Exception) -> str:
    """First line of the message of a library's exception; its class name if the message is empty."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
