"""Which heads a fit trains: words of the command line or a TOML file → specs."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads import HEADS, HeadShape, blank_head
from bertvision.heads.options import LAYERS, head_options
from bertvision.runs.fitting.solve import CONVEX
from bertvision.tasks.files import read_toml
from bertvision.tasks.task import TaskKind
from bertvision.training.trainee import HeadSpec

ALL = "all"
_FIELDS = {field.name for field in fields(HeadSpec)} - {"head", "options"}
_KINDS = {float: "a number", int: "a whole number", str: "a word", dict: "a table"}
_OF_SOLVED = {"seed", "fraction", LAYERS}
"""What of a grid is told apart in heads that are solved: rates and dropout change nothing there."""


def parse_heads(words: str, kind: TaskKind, base: HeadSpec) -> list[HeadSpec]:
    """`all` that fit the task, names between commas, or a TOML file with a table `[[head]]` for each.

    Args:
        words: as the user wrote them.
        kind: kind of the task.
        base: how heads learn where nothing else is said.

    Raises:
        BertVisionError: there is no such head, file or key.
    """
    if words == ALL:
        return [replace(base, head=name) for name in HEADS if fits_kind(name, kind)]
    if words.endswith(".toml"):
        return [_from_table(table, base, Path(words)) for table in _tables(Path(words))]
    names = [name.strip() for name in words.split(",") if name.strip()]
    for name in names:
        if name not in HEADS:
            raise UnknownNameError("head", name, [*HEADS, ALL])
    if not names:
        raise BertVisionError("--heads names no head; 'all', names between commas, or a TOML file are expected.")
    return [replace(base, head=name) for name in names]


def fits_kind(name: str, kind: TaskKind) -> bool:
    """Whether a head is meant for a kind of task, and can read what a fit has of it: one row per text but for spans."""
    if kind not in HEADS[name].kinds:
        return False
    return kind == "spans" or blank_head(name, HeadShape(layers=2, width=8, outputs=1)).token_wise


def spread(
    specs: Sequence[HeadSpec], grid: Sequence[str], seeds: int, fractions: Sequence[float], *, solve: bool = False
) -> list[HeadSpec]:
    """Every spec for every value of a grid, every seed and every share of the data; equal ones once.

    Args:
        specs: what to begin with.
        grid: words such as `lr=3e-4,1e-3` or `size=64,128`; an option that a head does not have leaves it as it is.
        seeds: how many, from each spec's own seed on.
        fractions: shares of the training examples, of each spec's own share.
        solve: whether convex heads are solved: of what changes nothing in them, they take the first value alone.

    Raises:
        BertVisionError: a word of the grid is none, or none of the heads has such an option.
    """
    if seeds < 1:
        raise BertVisionError(f"--seeds is {seeds}, at least 1 is expected.")
    for word in grid:
        key, sign, values = word.partition("=")
        if not sign or not values:
            raise BertVisionError(f"--grid is '{word}', a name and values such as lr=3e-4,1e-3 are expected.")
        known = _FIELDS | {LAYERS} | {name for spec in specs for name in head_options(HEADS[spec.head].head)}
        if key not in known:
            raise UnknownNameError("key of --grid for these heads", key, known)
        varied = [(spec, _varied(spec, key, values.split(","))) for spec in specs]
        alike = solve and key not in _OF_SOLVED
        specs = [one for spec, each in varied for one in (each[:1] if alike and _is_convex(spec) else each)]
    every = [
        replace(spec, seed=spec.seed + more, fraction=spec.fraction * fraction)
        for spec, more, fraction in product(specs, range(seeds), fractions)
    ]
    return list({repr(spec): spec for spec in every}.values())  # options cannot be hashed


def _is_convex(spec: HeadSpec) -> bool:
    return issubclass(HEADS[spec.head].head, CONVEX)


def _varied(spec: HeadSpec, key: str, values: Sequence[str]) -> list[HeadSpec]:
    if key in _FIELDS:
        return [replace(spec, **{key: _typed(spec, key, value)}) for value in values]
    if key != LAYERS and key not in head_options(HEADS[spec.head].head):
        return [spec]
    return [replace(spec, options={**spec.options, key: value}) for value in values]


def _typed(spec: HeadSpec, key: str, value: str) -> Any:  # noqa: ANN401 - a spec's fields have several types
    kind = type(getattr(spec, key))
    try:
        return kind(value)
    except ValueError:
        raise BertVisionError(f"{key} is '{value}', {_KINDS[kind]} is expected.") from None


def _tables(path: Path) -> list[dict[str, Any]]:
    content = read_toml(path)
    tables = content.get("head")
    plain = isinstance(tables, list) and all(isinstance(table, dict) for table in tables)
    if set(content) != {"head"} or not plain or not tables:
        raise BertVisionError(f"{path} holds {sorted(content)}, tables [[head]] alone are expected.")
    return list(tables)


def _from_table(table: dict[str, Any], base: HeadSpec, path: Path) -> HeadSpec:
    """A spec from a table: `head` is its name, keys of learning are keys, `options` is a table of its own."""
    if str(table.get("head")) not in HEADS:
        raise UnknownNameError(f"head in {path}", str(table.get("head")), HEADS)
    known = {"head", "options", *_FIELDS}
    for key in table:
        if key not in known:
            raise UnknownNameError(f"key in {path}", key, known)
    return HeadSpec(**{**asdict(base), **{key: _checked(key, value, base, path) for key, value in table.items()}})


def _checked(key: str, value: object, base: HeadSpec, path: Path) -> object:
    """A value of a table; whole numbers are taken for numbers."""
    kind = type(getattr(base, key))
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise BertVisionError(f"{key} in {path} is {value!r}, {_KINDS[kind]} is expected.")
    return value
