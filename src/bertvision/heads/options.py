"""Options of heads: read off a constructor, parsed from words, checked by type and limit."""

import inspect
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads.head import Head, HeadOptions, OptionValue


@dataclass(frozen=True, slots=True)
class Limits:
    """Which values an option may have.

    Attributes:
        words: for people.
        allow: whether a value may be.
    """

    words: str
    allow: Callable[[Any], bool]


Whole = Annotated[int, Limits("at least 1", lambda value: value >= 1)]
"""A whole number from 1 on."""

Count = Annotated[int, Limits("at least 0", lambda value: value >= 0)]
"""A whole number from 0 on."""

Sizes = Annotated[tuple[int, ...], Limits("of at least 1", lambda sizes: min(sizes, default=1) >= 1)]
"""Whole numbers from 1 on, as many as one likes."""

Share = Annotated[float, Limits("at least 0 and less than 1", lambda value: 0 <= value < 1)]
"""A share of a whole."""

Positive = Annotated[float, Limits("more than 0", lambda value: 0 < value < math.inf)]
"""A number above 0."""

LAYERS = "layers"
"""The option that every head has: which layers it may read."""

TOKENS, ATTENTION = "tokens", "attention"
"""The option that every head of single tokens has: `attention` lets it learn which tokens of a text count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option of a head.

    Attributes:
        name: of the keyword.
        hint: its type.
        default: its value where none is given.
    """

    name: str
    hint: Any
    default: OptionValue

    @property
    def kind(self) -> str:
        """What values it takes, in words."""
        return _kind(self.hint)

    def parse(self, value: object) -> OptionValue:
        """A value, or a word for one, as the option's type.

        Raises:
            BertVisionError: it is none.
        """
        try:
            return _parse(self.hint, value)
        except (ValueError, OverflowError):
            raise BertVisionError(
                f"option {self.name} is {value!r}, {self.kind} is expected (default: {show(self.default)})."
            ) from None


def head_options(head: type[Head]) -> dict[str, Option]:
    """Every option of a kind of head, by name."""
    hints = get_type_hints(head.__init__, include_extras=True)
    keywords = [p for p in inspect.signature(head.__init__).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {p.name: Option(name=p.name, hint=hints[p.name], default=p.default) for p in keywords}


def check_options(name: str, head: type[Head], options: HeadOptions) -> dict[str, OptionValue]:
    """All options of a head, the given ones parsed, defaults for the rest.

    Raises:
        BertVisionError: a name or a value is none; the nearest right one is named.
    """
    known = head_options(head)
    for given in options:
        if given not in known:
            raise UnknownNameError(f"option of head '{name}'", given, [*known, LAYERS, TOKENS])
    try:
        return {key: option.parse(options.get(key, option.default)) for key, option in known.items()}
    except BertVisionError as error:
        raise BertVisionError(f"head '{name}': {error}") from None


def parse_layers(words: OptionValue, layers: int, lowest: int) -> range:
    """The layers that `0..6` names, of so many; None means all from `lowest` on.

    Raises:
        BertVisionError: there are no such layers.
    """
    if words is None:
        return range(min(lowest, layers - 1), layers)
    first, dots, last = str(words).partition("..")
    whole = first.isdecimal() and (last.isdecimal() if dots else True)
    found = range(int(first), int(last if dots else first) + 1) if whole else range(0)
    if not found or found[-1] >= layers:
        raise BertVisionError(f"option layers is {words!r}, such as 0..{layers - 1} is expected.")
    return found


def show(value: OptionValue) -> str:
    """A value as one would write it."""
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _kind(hint: Any) -> str:  # noqa: ANN401 - type hints have no common type
    match get_origin(hint):
        case origin if origin is Annotated:
            inner, limits = get_args(hint)
            return f"{_kind(inner)} {limits.words}"
        case origin if origin is Literal:
            return "one of " + ", ".join(get_args(hint))
        case origin if origin in (types.UnionType, Union):
            return " or ".join(_kind(part) for part in get_args(hint))
        case origin if origin is tuple:
            return "whole numbers such as 64,128"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a word", types.NoneType: "none"}[
        hint
    ]


def _parse(hint: Any, value: object) -> OptionValue:  # noqa: ANN401 - type hints have no common type
    match get_origin(hint):
        case origin if origin is Annotated:
            inner, limits = get_args(hint)
            parsed = _parse(inner, value)
            return parsed if limits.allow(parsed) else _refuse()
        case origin if origin is Literal:
            return str(value) if value in get_args(hint) else _refuse()
        case origin if origin in (types.UnionType, Union):
            some = next(part for part in get_args(hint) if part is not types.NoneType)
            return None if value in (None, "none") else _parse(some, value)
        case origin if origin is tuple:
            return _numbers(value)
    if hint is str:
        return value if isinstance(value, str) else _refuse()
    return _truth(value) if hint is bool else _number(hint, value)


def _number(kind: type[int] | type[float], value: object) -> int | float:
    """A number of a kind; a fraction is no whole number, and true is no number."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or (kind is int and isinstance(value, float))
    ):
        raise ValueError
    return kind(value)


def _numbers(value: object) -> tuple[int, ...]:
    """Whole numbers between commas, or a list of them; `none` is no number at all."""
    if value in ("", "none"):
        return ()
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        _refuse()
    return tuple(int(_number(int, part)) for part in parts)


def _truth(value: object) -> bool:
    word = str(value).lower()
    if word not in {"true", "false"}:
        raise ValueError
    return word == "true"


def _refuse() -> NoReturn:
    raise ValueError
