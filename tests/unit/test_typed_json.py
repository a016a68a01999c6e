"""Records come back from JSON as they were, and what is not of their type is refused."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest

from bertvision.typed_json import from_json


@dataclass(frozen=True)
class Inner:
    name: str
    share: float | None


@dataclass(frozen=True)
class Outer:
    count: int
    how: Literal["max", "mean"]
    flag: bool
    rows: tuple[Inner, ...]
    table: tuple[tuple[int, ...], ...]
    row: tuple[int, str]
    listed: list[float]
    by_name: dict[str, Inner]
    other: Inner | None
    free: dict[str, Any]
    mapped: Mapping[str, tuple[int, ...] | bool | str | None]


WHOLE = Outer(
    count=3,
    how="max",
    flag=True,
    rows=(Inner("a", 0.5), Inner("b", None)),
    table=((1, 2), ()),
    row=(1, "a"),
    listed=[1.0, 2],
    by_name={"x": Inner("c", 1.0)},
    other=None,
    free={"size": 3, "deep": {"er": [1]}},
    mapped={"several": (1, 2), "flag": True, "word": "a", "none": None},
)


def test_what_was_written_comes_back() -> None:
    assert from_json(Outer, json.loads(json.dumps(asdict(WHOLE)))) == WHOLE


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("count", "3", "'3' is not of type"),
        ("count", 3.5, "3.5 is not of type"),
        ("count", True, "True is not of type"),
        ("flag", 1, "1 is not of type"),
        ("rows", {"name": "a", "share": None}, "is not of type"),
        ("rows", [{"name": "a", "share": None, "more": 1}], "Inner has no more"),
        ("row", ["a", 1], "'a' is not of type"),
        ("row", [1, "a", "b"], "has 3 values, 2 are expected"),
        ("row", "ab", "is not of type"),
        ("by_name", [], "is not of type"),
        ("other", 3, "3 is not of type"),
        ("how", "min", "'min' is none of"),
        ("mapped", {"number": 3.5}, "3.5 is not of type"),
    ],
)
def test_what_is_of_another_type_is_refused(key: str, value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        from_json(Outer, {**json.loads(json.dumps(asdict(WHOLE))), key: value})


@dataclass(frozen=True)
class Later:
    name: str
    share: float | None = None
    more: dict[str, int] = field(default_factory=dict)


def test_what_has_a_default_may_be_missing_as_in_older_records() -> None:
    assert from_json(Later, {"name": "a"}) == Later("a")
    assert from_json(Later, {"name": "a", "more": {"b": 1}}) == Later("a", more={"b": 1})
    with pytest.raises(KeyError, match="name"):
        from_json(Later, {"share": 1.0})


def test_what_is_missing_is_refused() -> None:
    content = json.loads(json.dumps(asdict(WHOLE)))
    del content["listed"]
    with pytest.raises(KeyError, match="listed"):
        from_json(Outer, content)
