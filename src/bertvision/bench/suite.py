"""Suite: the cells to measure, in order of importance, and the models to compare, read from experiments/NAME.toml."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from bertvision.bench.cells import KINDS
from bertvision.bench.environment import settings_digest
from bertvision.bench.grid import expand
from bertvision.bench.tune_cell import TUNE
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.tasks.files import read_toml
from bertvision.typed_json import from_json

EXPERIMENTS = Path("experiments")
SUITE_KEYS = ("about", "defaults", "cell", "compare")
COMPARE_KEYS = ("first", "second")
OWN_KEYS = ("name", "kind")
ON, OF = "on", "of"
"""Settings that name another cell, or several other cells."""
CELL_KEYS = (ON, OF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """An experiment of a suite, to be run with several seeds.

    Attributes:
        name: name in the suite.
        kind: name of its kind in `KINDS`.
        settings: settings dataclass of that kind.
    """

    name: str
    kind: str
    settings: Any

    @property
    def by_chance(self) -> bool:
        """Whether the result depends on the seed; if not, it is measured only once."""
        return bool(getattr(self.settings, "by_chance", True))

    def key(self, seed: int) -> str:
        """Key of its result in the record, from kind, settings and seed; the name does not matter."""
        return f"{self.kind}-{settings_digest(self.kind, self.settings, seed)}"

    def as_json(self) -> dict[str, Any]:
        """Name, kind and settings as in a record."""
        return {"name": self.name, "kind": self.kind, "settings": _plain(self.settings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two models that are compared by a paired test.

    Attributes:
        first, second: `CELL:MODEL`, or `CELL` for its model with the best held-out score.
    """

    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Experiments that belong together.

    Attributes:
        name: name of the suite, and of its record.
        about: the question it asks, in a line.
        cells: the experiments, the most important first.
        pairs: the models to compare.
    """

    name: str
    about: str
    cells: tuple[Cell, ...]
    pairs: tuple[Pair, ...]

    def only(self, names: Sequence[str]) -> tuple[Cell, ...]:
        """The cells of those names, in the order of the suite; all cells if `names` is empty.

        Raises:
            UnknownNameError: the suite has no cell of a name.
        """
        known = [cell.name for cell in self.cells]
        for name in names:
            if name not in known:
                raise UnknownNameError("cell", name, known)
        return tuple(cell for cell in self.cells if not names or cell.name in names)


def find_suite(name: str) -> Path:
    """The file of a suite, from a path ending in `.toml` or a name in the folder experiments.

    Raises:
        BertVisionError: there is no such file.
    """
    path = Path(name) if name.endswith(".toml") else EXPERIMENTS / f"{name}.toml"
    if path.is_file():
        return path
    known = sorted(one.stem for one in EXPERIMENTS.glob("*.toml"))
    if known and not name.endswith(".toml"):
        raise UnknownNameError("suite", name, known)
    raise BertVisionError(f"{path} is not there. Name a file such as {EXPERIMENTS / 'smoke.toml'}.")


def load_suite(path: Path) -> Suite:
    """Read a suite from its file; see docs/suites.md.

    Raises:
        BertVisionError: the file cannot be read, or has an unknown key or name or a wrong value.
    """
    content = read_toml(path)
    try:
        return parse_suite(path.stem, content)
    except BertVisionError as error:
        raise BertVisionError(f"{path}: {error}") from None


def parse_suite(name: str, content: Mapping[str, Any]) -> Suite:
    """Build a suite from the content of its file.

    Raises:
        BertVisionError: an unknown key or name, or a wrong value.
    """
    _check_known("key", content, SUITE_KEYS)
    defaults, tables, pairs = content.get("defaults", {}), content.get("cell", []), content.get("compare", [])
    if not isinstance(defaults, dict) or not isinstance(pairs, list):
        raise BertVisionError("one table [defaults] and tables [[compare]] are expected.")
    known = {one.name for kind in KINDS.values() for one in fields(kind.settings)} - set(CELL_KEYS)
    _check_known("key in [defaults]", defaults, known)
    if not isinstance(tables, list) or not tables:
        raise BertVisionError("it has no cell; tables [[cell]] with a name and a kind are expected.")
    cells: dict[str, Cell] = {}
    for table, values in (one for grid in tables for one in expand(grid, ("name",))):
        cell = _cell(table | values, defaults, cells)
        if cell.name in cells:
            raise BertVisionError(f"two cells are called '{cell.name}'; each needs a name of its own.")
        cells[cell.name] = cell
    return Suite(
        name=name,
        about=str(content.get("about", "")),
        cells=tuple(cells.values()),
        pairs=tuple(_pair(table, cells) for grid in pairs for table, _ in expand(grid, COMPARE_KEYS)),
    )


def _check_known(what: str, given: Mapping[str, Any], known: Sequence[str] | set[str]) -> None:
    for word in given:
        if word not in known:
            raise UnknownNameError(what, word, known)


def _cell(table: Mapping[str, Any], defaults: Mapping[str, Any], before: Mapping[str, Cell]) -> Cell:
    """The cell of a table of the file; `before` are the cells above it, which it may name."""
    name, kind = str(table.get("name", "")), str(table.get("kind", ""))
    if not name or set(name) & {":", ","}:
        raise BertVisionError(f"a cell is called '{name}'; a name without colons and commas is expected.")
    if kind not in KINDS:
        raise UnknownNameError(f"kind of cell '{name}'", kind, KINDS)
    settings = KINDS[kind].settings
    own = {one.name for one in fields(settings)}
    given = {key: value for key, value in table.items() if key not in OWN_KEYS}
    _check_known(f"key in cell '{name}'", given, own)
    try:
        values = {key: value for key, value in defaults.items() if key in own} | given
        built = _build(settings, values | _settings_above(given, before))
        _check_not_replaced(built, given)
        built.check()
    except BertVisionError as error:
        raise BertVisionError(f"cell '{name}': {error}") from None
    return Cell(name=name, kind=kind, settings=built)


def _check_not_replaced(built: Any, given: Mapping[str, Any]) -> None:  # noqa: ANN401 - of any kind
    """Refuse settings of examples and encoder that contradict those copied from the cells that it names."""
    above = next((given[key] for key in CELL_KEYS if key in given), None)
    if above is None:
        return
    for key, value in given.items():
        if key not in CELL_KEYS and _plain(built)[key] != value:
            raise BertVisionError(f"{key} is that of {above!r}, {getattr(built, key)!r}; leave it out.")


def _settings_above(given: Mapping[str, Any], before: Mapping[str, Cell]) -> dict[str, Any]:
    """The settings `on` and `of` of a cell, with the settings of the cells above in place of their names."""

    def find(key: str, name: object) -> dict[str, Any]:
        if not isinstance(name, str) or name not in before:
            raise UnknownNameError("cell above", str(name), before)
        if before[name].kind != TUNE:
            raise BertVisionError(f"{key} names '{name}', of kind {before[name].kind}; kind {TUNE} is expected.")
        return _plain(before[name].settings)

    above: dict[str, Any] = {}
    if given.get(ON) is not None:
        above[ON] = find(ON, given[ON])
    if OF in given:
        if not isinstance(given[OF], list):
            raise BertVisionError(f"{OF} is {given[OF]!r}; a list of names of cells is expected.")
        above[OF] = [find(OF, name) for name in given[OF]]
    return above


def _plain(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass of any kind
    """Settings as JSON values, with lists instead of tuples."""
    content: dict[str, Any] = json.loads(json.dumps(asdict(settings)))
    return content


def _build(settings: type[Any], values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a dataclass of any kind
    """Settings from JSON values; each is checked by itself first, so that the message can name it."""
    defaults = _plain(settings())
    for key, value in values.items():
        try:
            from_json(settings, defaults | {key: value})
        except (KeyError, TypeError):
            hint = get_type_hints(settings)[key]
            kind = getattr(hint, "__name__", None) if get_origin(hint) is None else str(hint)
            raise BertVisionError(
                f"{key} is {value!r}; {kind or hint} is expected, such as the default {defaults[key]!r}."
            ) from None
    return from_json(settings, defaults | dict(values))


def _pair(table: Mapping[str, Any], cells: Mapping[str, Cell]) -> Pair:
    _check_known("key in [[compare]]", table, COMPARE_KEYS)
    tasks = []
    for key in COMPARE_KEYS:
        cell, _, model = str(table.get(key, "")).partition(":")
        if cell not in cells:
            raise UnknownNameError(f"cell in [[compare]] {key}", cell, cells)
        settings = cells[cell].settings
        tasks.append((settings.task, settings.data))
        if model and model not in settings.models:
            raise UnknownNameError(f"model of cell '{cell}'", model, settings.models)
        if not model and len(settings.models) > 1 and not getattr(settings, "held_out", 0.0):
            raise BertVisionError(
                f"[[compare]] {key} is '{cell}', which has several models and no held-out examples to choose by. "
                f"Name one: {cell}:{settings.models[0]}"
            )
    if tasks[0] != tasks[1]:
        raise BertVisionError(
            f"[[compare]] has '{table['first']}' of {' in '.join(tasks[0])}, and '{table['second']}' of "
            f"{' in '.join(tasks[1])}; a paired test needs the same examples."
        )
    return Pair(first=str(table["first"]), second=str(table["second"]))
