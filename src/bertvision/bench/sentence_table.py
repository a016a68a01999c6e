"""The record of a suite with cells of the kind `sentences` → Markdown: tasks as rows, methods as columns."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
from typing import Any

from bertvision.bench.compare import Measured, mean_and_spread, measured_cells
from bertvision.bench.sentence_methods import METHODS
from bertvision.bench.sentence_settings import SENTENCES
from bertvision.bench.tables import DIRTY, MILLI, markdown_table, pairs_table, suite_notes
from bertvision.report.markdown import plain
from bertvision.report.numbers import NOTHING, show_number
from bertvision.runs.judging.judge import PLAIN
from bertvision.tasks.load import find_task

Row = dict[str, Measured]
"""The cells with the same training examples, by method."""


def sentences_markdown(record: Mapping[str, Any]) -> str:
    """Tables for each encoder: scores with all examples and with few per class, and seconds; then paired tests."""
    cells = [cell for cell in measured_cells(record) if cell.kind == SENTENCES]
    there = [cell for cell in cells if cell.models]
    parts = [plain(record["about"])] if record["about"] else []
    for encoder in dict.fromkeys(cell.settings["encoder"] for cell in there):
        rows = _rows([cell for cell in there if cell.settings["encoder"] == encoder])
        full = [row for row in rows if _settings(row)["per_class"] is None]
        few = [row for row in rows if _settings(row)["per_class"] is not None]
        quality = [("all training examples", full), ("few examples of each class", few)]
        parts += [f"**{plain(encoder)}, {words}**\n\n{_table(group, _quality)}" for words, group in quality if group]
        parts.append(f"**{plain(encoder)}, seconds of encoding + learning, and milliseconds of an answer**")
        parts.append(_table(rows, _cost))
    tests = pairs_table(record["pairs"], there)
    parts += [f"**Paired tests of the first metric**\n\n{tests}"] if tests else []
    return "\n\n".join([*parts, *suite_notes(cells)])


def _rows(cells: Sequence[Measured]) -> list[Row]:
    """One row for all cells that differ only in their methods."""
    rows: dict[str, Row] = {}
    for cell in cells:
        other_settings = str([value for key, value in cell.settings.items() if key != "methods"])
        rows.setdefault(other_settings, {}).update(dict.fromkeys(cell.models, cell))
    return list(rows.values())


def _settings(row: Row) -> Mapping[str, Any]:
    """The settings that all cells of a row share; those of its first cell."""
    return next(iter(row.values())).settings


def _table(rows: Sequence[Row], show: Callable[[Row, str], str]) -> str:
    """A row for each task and number of examples, a column for each method that was measured."""
    methods = [method for method in METHODS if any(method in row for row in rows)]
    lines = []
    for row in rows:
        task, per_class = _settings(row)["task"], _settings(row)["per_class"]
        learnt = next(iter(next(iter(row.values())).entries.values()))["result"]["examples"]
        shown = [show(row, method) if method in row else NOTHING for method in methods]
        of_each = NOTHING if per_class is None else str(per_class)
        dirty = any(entry["dirty"] for cell in row.values() for entry in cell.entries.values())
        name = f"{task}, {find_task(task).metrics[0]}" + (DIRTY if dirty else "")
        lines.append([name, of_each, f"{learnt:,}", *shown])
    return markdown_table(["task", "of each class", "examples", *(METHODS[one].title for one in methods)], lines)


def _quality(row: Row, method: str) -> str:
    """The task's first metric in points, mean ± standard deviation; the best of a row is bold."""
    mean, spread = _points(row, method)
    text = show_number(mean, "percent") + ("" if spread is None else f" ± {show_number(spread, 'percent')}")
    best = max(value for other in row if (value := _points(row, other)[0]) is not None)
    return f"**{text}**" if mean == best else text


def _points(row: Row, method: str) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the task's first metric over seeds, in points."""
    metric = find_task(_settings(row)["task"]).metrics[0]
    return mean_and_spread(row[method].over_seeds(method, lambda one: 100.0 * one["scores"][PLAIN][metric]))


def _cost(row: Row, method: str) -> str:
    """Mean seconds of encoding and of training, and milliseconds per prediction; `NOTHING` if they were not timed."""
    names = ("encode_seconds", "seconds", "inference_seconds")
    times = [row[method].over_seeds(method, itemgetter(name)) for name in names]
    if not all(times):  # records of untimed runs have None
        return NOTHING
    encoded, trained, answered = (fmean(values) for values in times)
    return f"{encoded:.1f} + {trained - encoded:.1f} s, {answered / MILLI:.1f} ms"
