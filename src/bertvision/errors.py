"""The errors we raise on purpose; everything else is a bug and shows its traceback."""

import difflib
from collections.abc import Iterable
from typing import final


class BertVisionError(Exception):
    """A problem the user can mend: the message says what, got, expected and the next step."""


class DataError(BertVisionError):
    """A file that cannot be read as what it should be."""


@final
class WriteError(BertVisionError):
    """A file or folder that cannot be written.

    Attributes:
        reason: why, in the system's words.
    """

    def __init__(self, what: object, reason: str, otherwise: str = "") -> None:
        super().__init__(f"{what} cannot be written: {reason}. {otherwise}".rstrip())
        self.reason = reason


@final
class DivergedError(BertVisionError):
    """A run whose loss or weights are not finite any more: others with smaller steps may do better."""


@final
class MisfitError(BertVisionError):
    """Options that do not go together, or not with the encoder, the task or the machine: others may."""


@final
class UnknownNameError(BertVisionError):
    """A name that is not in its table, answered with the nearest one that is."""

    def __init__(self, what: str, got: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(got, names, n=1)
        guess = f" Did you mean '{near[0]}'?" if near else ""
        super().__init__(f"unknown {what} '{got}'.{guess} Known: {', '.join(names)}.")


@final
class MissingExtraError(BertVisionError):
    """An optional dependency that the request needs and the installation lacks."""

    def __init__(self, purpose: str, package: str, extra: str) -> None:
        super().__init__(f"{purpose} needs the package '{package}'. Install it: pip install 'bertvision[{extra}]'")


def refuse(problems: Iterable[str]) -> None:
    """Tell all of several problems at once, each one time; nothing where there are none.

    Raises:
        BertVisionError: there are some.
    """
    listed = "; ".join(dict.fromkeys(problems))
    if listed:
        raise BertVisionError(f"{listed}.")


def first_line(error: Exception) -> str:
    """What an error of somebody else's code says, in one line: the name of its kind where it says nothing."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
