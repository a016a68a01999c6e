"""JSON → dataclasses, by their types: the way back from `dataclasses.asdict`."""

import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_json(kind: type[T], value: object) -> T:
    """An object of a dataclass from what `json.loads` gives.

    Fields may be words, numbers, literals, dataclasses, None, lists, tuples and dicts of such, or one of several of
    these; `Any` is kept.
    Those with a default may be missing, as in records of before there was such a field.

    Raises:
        KeyError, TypeError: something is missing, unknown, or of another type.
    """
    hint: Any = kind
    built: T = _builder(hint)(value)
    return built


@cache
def _builder(hint: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - any type
    """What makes a value of a type from JSON; found once for every type."""
    origin, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _dataclass(hint)
    if origin in (list, tuple):
        return _several(origin, inner)
    if origin in (dict, Mapping):
        item = _builder(inner[1])
        return lambda value: {key: item(one) for key, one in _checked(value, dict).items()}
    if origin in (Union, types.UnionType):
        others = [_builder(one) for one in inner if one is not type(None)]
        return lambda value: None if value is None else _first_fit(others, value)
    if origin is Literal:
        return lambda value: _known(value, inner)
    kinds: dict[Any, Any] = {Any: object, float: (int, float)}  # a whole number is a number, too
    return lambda value: _checked(value, kinds.get(hint, hint))


def _dataclass(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - any dataclass
    hints = get_type_hints(kind)
    names = {field.name for field in fields(kind)}
    needed = {one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING}

    def build(value: Any) -> Any:  # noqa: ANN401 - of that dataclass
        unknown = _checked(value, dict).keys() - names
        if unknown:
            raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
        return kind(**{name: _builder(hints[name])(value[name]) for name in names & value.keys() | needed})

    return build


def _several(container: type, inner: tuple[Any, ...]) -> Callable[[Any], Any]:
    if container is tuple and inner[-1] is not ...:
        return _row([_builder(one) for one in inner])
    item = _builder(inner[0])
    return lambda value: container(item(one) for one in _checked(value, list))


def _row(items: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """What makes a tuple whose places have types of their own."""

    def build(value: Any) -> Any:  # noqa: ANN401 - a tuple of them
        if len(_checked(value, list)) != len(items):
            raise TypeError(f"{value!r} has {len(value)} values, {len(items)} are expected")
        return tuple(item(one) for item, one in zip(items, value, strict=True))

    return build


def _first_fit(builders: Sequence[Callable[[Any], Any]], value: object) -> object:
    """What the first of several types makes of a value that is of it; what the last one says if it is of none."""
    *others, last = builders
    for build in others:
        with suppress(TypeError):
            return build(value)
    return last(value)


def _known(value: object, words: tuple[Any, ...]) -> object:
    if value not in words:
        raise TypeError(f"{value!r} is none of {', '.join(map(str, words))}")
    return value


def _checked(value: Any, kind: Any) -> Any:  # noqa: ANN401 - any type
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        raise TypeError(f"{value!r} is not of type {kind}")
    return value
