"""from_json: parsed JSON → dataclasses, checked against their type hints; the inverse of `dataclasses.asdict`."""

import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_json(kind: type[T], value: object) -> T:
    """Build a dataclass (or another type) from the output of `json.loads`.

    Supported types: str, bool, int, float, None, `Literal`, dataclasses, unions, and lists, tuples and dicts of these.
    Values of type `Any` are not checked. Fields with a default may be missing, as in files that were written before the
    field existed.

    Raises:
        KeyError: a field without a default is missing.
        TypeError: a key is not a field, or a value has the wrong type.
    """
    hint: Any = kind
    built: T = _builder(hint)(value)
    return built


@cache
def _builder(hint: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - any type
    """Function that checks and converts a JSON value to this type; cached by type."""
    origin, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _dataclass(hint)
    if origin in (list, tuple):
        return _sequence(origin, inner)
    if origin in (dict, Mapping):
        item = _builder(inner[1])
        return lambda value: {key: item(element) for key, element in _checked(value, dict).items()}
    if origin in (Union, types.UnionType):
        members = [_builder(member) for member in inner if member is not type(None)]
        return lambda value: None if value is None else _first_fit(members, value)
    if origin is Literal:
        return lambda value: _one_of(value, inner)
    kinds: dict[Any, Any] = {Any: object, float: (int, float)}  # JSON writes 1.0 as 1, too
    return lambda value: _checked(value, kinds.get(hint, hint))


def _dataclass(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - any dataclass
    hints = get_type_hints(kind)
    names = {field.name for field in fields(kind)}
    required = {field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING}

    def build(value: Any) -> Any:  # noqa: ANN401 - of that dataclass
        unknown = _checked(value, dict).keys() - names
        if unknown:
            raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
        return kind(**{name: _builder(hints[name])(value[name]) for name in names & value.keys() | required})

    return build


def _sequence(container: type, inner: tuple[Any, ...]) -> Callable[[Any], Any]:
    if container is tuple and inner[-1] is not ...:
        return _fixed_tuple([_builder(item) for item in inner])
    item = _builder(inner[0])
    return lambda value: container(item(element) for element in _checked(value, list))


def _fixed_tuple(items: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Builder of a tuple of fixed length with one type per position."""

    def build(value: Any) -> Any:  # noqa: ANN401 - such a tuple
        if len(_checked(value, list)) != len(items):
            raise TypeError(f"{value!r} has {len(value)} values, {len(items)} are expected")
        return tuple(item(element) for item, element in zip(items, value, strict=True))

    return build


def _first_fit(builders: Sequence[Callable[[Any], Any]], value: object) -> object:
    """Result of the first builder that raises no TypeError; the error of the last one if all do.

    A KeyError is not caught: a missing field is the better message for an object with known keys.
    """
    *others, last = builders
    for build in others:
        with suppress(TypeError):
            return build(value)
    return last(value)


def _one_of(value: object, words: tuple[Any, ...]) -> object:
    if value not in words:
        raise TypeError(f"{value!r} is none of {', '.join(map(str, words))}")
    return value


def _checked(value: Any, kind: Any) -> Any:  # noqa: ANN401 - any type
    if not isinstance(value, kind) or (isinstance(value, bool) and kind not in (bool, object)):
        raise TypeError(f"{value!r} is not of type {kind}")
    return value
