"""The heads of a fit: parses `--heads`, `--grid` and TOML files into `HeadSpec`s."""

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
_CHANGE_SOLVED = {"seed", "fraction", LAYERS}
"""Keys of a grid that change heads that are solved; learning rates, dropout and so on do not."""


def parse_heads(text: str, kind: TaskKind, base: HeadSpec) -> list[HeadSpec]:
    """Parse the value of `--heads`.

    Args:
        text: names separated by commas, where `all` is every head that is valid for the kind of task; or the path of a
            TOML file with a table `[[head]]` per head.
        kind: kind of the task.
        base: default training options.

    Raises:
        BertVisionError: an unknown head or key, an invalid value, or no such file.
    """
    if text.endswith(".toml"):
        return [_from_table(table, base, Path(text)) for table in _tables(Path(text))]
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in HEADS and name != ALL:
            raise UnknownNameError("head", name, [*HEADS, ALL])
    if not names:
        raise BertVisionError("--heads names no head; 'all', names between commas, or a TOML file are expected.")
    valid = [name for name in HEADS if fits_kind(name, kind)] if ALL in names else []
    return [replace(base, head=head) for name in names for head in (valid if name == ALL else [name])]


def fits_kind(name: str, kind: TaskKind) -> bool:
    """Whether a head is meant for a kind of task and can read what a fit has: except for spans, one row per text."""
    if kind not in HEADS[name].kinds:
        return False
    return kind == "spans" or blank_head(name, HeadShape(layers=2, width=8, outputs=1)).token_wise


def spread(
    specs: Sequence[HeadSpec], grid: Sequence[str], seeds: int, fractions: Sequence[float], *, solve: bool = False
) -> list[HeadSpec]:
    """The product of specs, a grid, seeds and shares of the data, without duplicates.

    Args:
        specs: the heads.
        grid: names with values, such as `lr=3e-4,1e-3` or `size=64,128`; heads without the option stay unchanged.
        seeds: number of seeds, counted up from each spec's own seed.
        fractions: shares of the training examples, multiplied with each spec's own share.
        solve: whether convex heads are solved; they take only the first value of a key that cannot change them.

    Raises:
        BertVisionError: an item of the grid is malformed, has an invalid value, or names an option of none of the
            heads; or `seeds` is below 1.
    """
    if seeds < 1:
        raise BertVisionError(f"--seeds is {seeds}, at least 1 is expected.")
    for item in grid:
        key, sign, values = item.partition("=")
        if not sign or not values:
            raise BertVisionError(f"--grid is '{item}', a name and values such as lr=3e-4,1e-3 are expected.")
        known = _FIELDS | {LAYERS} | {name for spec in specs for name in head_options(HEADS[spec.head].head)}
        if key not in known:
            raise UnknownNameError("key of --grid for these heads", key, known)
        varied = [(spec, _varied(spec, key, values.split(","))) for spec in specs]
        no_effect = solve and key not in _CHANGE_SOLVED
        specs = [
            variant
            for spec, variants in varied
            for variant in (variants[:1] if no_effect and _is_convex(spec) else variants)
        ]
    combined = [
        replace(spec, seed=spec.seed + offset, fraction=spec.fraction * fraction)
        for spec, offset, fraction in product(specs, range(seeds), fractions)
    ]
    return list({repr(spec): spec for spec in combined}.values())  # specs are not hashable: options is a dict


def _is_convex(spec: HeadSpec) -> bool:
    return issubclass(HEADS[spec.head].head, CONVEX)


def _varied(spec: HeadSpec, key: str, values: Sequence[str]) -> list[HeadSpec]:
    """The spec with each of the values; unchanged if the head has no such option."""
    if key in _FIELDS:
        return [replace(spec, **{key: _typed(spec, key, value)}) for value in values]
    if key != LAYERS and key not in head_options(HEADS[spec.head].head):
        return [spec]
    return [replace(spec, options={**spec.options, key: value}) for value in values]


def _typed(spec: HeadSpec, key: str, value: str) -> Any:  # noqa: ANN401 - a spec's fields have several types
    """A value of a training option, converted to the option's type."""
    kind = type(getattr(spec, key))
    try:
        return kind(value)
    except ValueError:
        raise BertVisionError(f"{key} is '{value}', {_KINDS[kind]} is expected.") from None


def _tables(path: Path) -> list[dict[str, Any]]:
    """The tables `[[head]]` of a TOML file, which may have nothing else."""
    content = read_toml(path)
    tables = content.get("head")
    are_tables = isinstance(tables, list) and all(isinstance(table, dict) for table in tables)
    if set(content) != {"head"} or not are_tables or not tables:
        raise BertVisionError(f"{path} holds {sorted(content)}, tables [[head]] alone are expected.")
    return list(tables)


def _from_table(table: dict[str, Any], base: HeadSpec, path: Path) -> HeadSpec:
    """A spec from a table: `head` is the name, training options are keys, `options` is a table with the head's own."""
    if str(table.get("head")) not in HEADS:
        raise UnknownNameError(f"head in {path}", str(table.get("head")), HEADS)
    known = {"head", "options", *_FIELDS}
    for key in table:
        if key not in known:
            raise UnknownNameError(f"key in {path}", key, known)
    return HeadSpec(**{**asdict(base), **{key: _checked(key, value, base, path) for key, value in table.items()}})


def _checked(key: str, value: object, base: HeadSpec, path: Path) -> object:
    """A value of a table, checked for its type; a whole number is accepted where a float is expected."""
    kind = type(getattr(base, key))
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise BertVisionError(f"{key} in {path} is {value!r}, {_KINDS[kind]} is expected.")
    return value
