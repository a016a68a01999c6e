"""suite_markdown: the record of a suite as Markdown tables of scores, costs and paired tests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertvision.bench.compare import CHOSEN, Measured, find_model, mean_and_spread, measured_cells, paired_test
from bertvision.evaluation.bootstrap import Difference
from bertvision.report.markdown import code, plain
from bertvision.report.numbers import NOTHING, Unit, show_difference, show_interval, show_number
from bertvision.runs.judging.judge import BEST, CLAIMED, FITTED, PLAIN, ZERO

Read = Callable[[Mapping[str, Any]], float | None]
"""Reads a value from the result of a model; None if it has none."""

MEGABYTE, GIGABYTE, MILLI = 1e6, 1e9, 1e-3
CURVE = "held_out_curve"
"""Key of a model's held-out scores after each epoch; older records have none."""

DIRTY = "†"
"""Marks cells that were measured with uncommitted changes."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: title with the unit.
        read: reads the value of a model.
        unit: how the value is formatted.
        spread: whether to show the standard deviation over seeds.
    """

    title: str
    read: Read
    unit: Unit = "number"
    spread: bool = False


def suite_markdown(record: Mapping[str, Any]) -> str:
    """All tables of a suite: those of each task and encoder, then paired tests and notes."""
    cells = measured_cells(record)
    measured = [cell for cell in cells if cell.models]
    groups = dict.fromkeys((cell.settings["task"], cell.settings["encoder"]) for cell in measured)
    parts = [plain(record["about"])] if record["about"] else []
    for task, encoder in groups:
        group = [cell for cell in measured if (cell.settings["task"], cell.settings["encoder"]) == (task, encoder)]
        parts += [f"**{plain(task)}, {plain(encoder)}**", overview_table(group)]
        if any(len(cell.models) > 1 for cell in group):
            parts += ["Every model:", models_table(group)]
        curves = curves_table(group)
        parts += ["Held out, after each epoch:", curves] if curves else []
    tests = pairs_table(record["pairs"], measured)
    parts += [tests] if tests else []
    return "\n\n".join([*parts, *suite_notes(cells)])


def overview_table(cells: Sequence[Measured]) -> str:
    """A row for each cell: scores and costs of its last snapshot, or of the best head or ensemble by held-out score."""
    chosen = [(cell, cell.best() if cell.kind in CHOSEN else cell.models[-1]) for cell in cells]
    columns = [*_scores(chosen), *_COSTS]
    rows = []
    for cell, model in chosen:
        entries = [entry["result"] for entry in cell.entries.values()]
        first = [one["first_step_seconds"] for one in entries if one.get("first_step_seconds") is not None]
        peak = [one["peak_bytes"] / GIGABYTE for one in entries if one.get("peak_bytes") is not None]
        of_cell = [_over(first, "seconds", spread=False), _over(peak, "number", spread=False)]
        rows.append([*_names(cell, model), *(_number(cell, model, column) for column in columns), *of_cell])
    titles = ["cell", "model", *(column.title for column in columns), "first step, s", "peak GPU, GB"]
    return markdown_table(titles, rows)


def models_table(cells: Sequence[Measured]) -> str:
    """A row for each model of each cell, with scores and costs."""
    every = [(cell, model) for cell in cells for model in cell.models]
    held_out = Column("held out", lambda one: one["held_out"], _unit(every))
    columns = [_EPOCHS, *_scores(every), held_out, Column("loss on dev", lambda one: one.get("loss")), *_COSTS[:3]]
    rows = [[*_names(cell, model), *(_number(cell, model, column) for column in columns)] for cell, model in every]
    return markdown_table(["cell", "model", *(column.title for column in columns)], rows)


def curves_table(cells: Sequence[Measured]) -> str:
    """A row of held-out scores for each model that was scored after every epoch; empty if there is none."""
    every = [(cell, model) for cell in cells for model in cell.models]
    results = [entry["result"]["models"][model] for cell, model in every for entry in cell.entries.values()]
    epochs = sorted({at for result in results for at, _ in result.get(CURVE, ())})
    columns = [Column(f"{at:g}", _held_out_after(at), _unit(every)) for at in epochs]
    values = [[_number(cell, model, column) for column in columns] for cell, model in every]
    rows = [[*_names(*one), *row] for one, row in zip(every, values, strict=True) if any(v != NOTHING for v in row)]
    return markdown_table(["cell", "model", *(column.title for column in columns)], rows) if rows else ""


def pairs_table(pairs: Iterable[Mapping[str, str]], cells: Sequence[Measured]) -> str:
    """Paired tests of the suite's pairs that are measured; empty if none is."""
    rows = []
    for pair in pairs:
        first, second = (find_model(cells, pair[side]) for side in ("first", "second"))
        tested = None if first is None or second is None else paired_test(first, second)
        if first is None or second is None or tested is None:
            continue
        test, by_seed = tested
        sides = [code(f"{cell.name}:{model}") for cell, model in (first, second)]
        interval = show_interval(test.interval.low, test.interval.high, "percent")
        seeds = ", ".join(show_difference(one, "percent") for one in by_seed)
        difference = show_difference(test.value, "percent")
        rows.append([*sides, difference, interval, show_number(test.p, "p"), which_way(test), seeds])
    titles = ["first", "second", "points", "95 % interval", "p", "first is", "with each seed"]
    return markdown_table(titles, rows) if rows else ""


def which_way(test: Difference) -> str:
    """Whether the first model is significantly higher or lower than the second."""
    return "no difference" if test.p >= CLAIMED else "higher" if test.value > 0 else "lower"


_EPOCHS = Column("epochs", lambda one: one["epochs"])
_COSTS = (
    Column("learnt", lambda one: one["parameters"], "count"),
    Column("stored, MB", lambda one: one["bytes"] / MEGABYTE, "number"),
    Column("training, s", lambda one: one["seconds"], "seconds", spread=True),
    Column(
        "answer, ms",
        lambda one: None if one["inference_seconds"] is None else one["inference_seconds"] / MILLI,
        "seconds",
    ),
)


def _scores(models: Sequence[tuple[Measured, str]]) -> list[Column]:
    """Columns of scores: F1 at up to three thresholds for questions, else the task's first metric."""
    cell, model = models[0]
    scores = next(iter(cell.entries.values()))["result"]["models"][model]["scores"]
    titles = {ZERO: "F1, threshold 0", FITTED: "F1, fitted", BEST: "F1, best on dev"}
    if PLAIN not in scores:
        return [Column(title, _score(at, "f1"), "percent", spread=True) for at, title in titles.items() if at in scores]
    metric = next(iter(scores[PLAIN]))
    return [Column(metric.replace("_", " "), _score(PLAIN, metric), _unit(models), spread=True)]


def _score(at: str, metric: str) -> Read:
    return lambda one: one["scores"][at][metric] if at in one["scores"] else None


def _held_out_after(epochs: float) -> Read:
    return lambda one: dict(one.get(CURVE, ())).get(epochs)


def _unit(models: Sequence[tuple[Measured, str]]) -> Unit:
    """The unit of scores: percent for questions, else a share of 1."""
    cell, model = models[0]
    scores = next(iter(cell.entries.values()))["result"]["models"][model]["scores"]
    return "percent" if any("exact" in name for values in scores.values() for name in values) else "share"


def _number(cell: Measured, model: str, column: Column) -> str:
    """A model's value in a column, over seeds."""
    return _over(cell.over_seeds(model, column.read), column.unit, spread=column.spread)


def _over(values: Sequence[float], unit: Unit, *, spread: bool) -> str:
    """The mean over seeds, with the standard deviation if `spread` is set and there are several."""
    mean, deviation = mean_and_spread(values)
    text = show_number(mean, unit)
    return f"{text} ± {show_number(deviation, unit)}" if spread and deviation is not None else text


def _names(cell: Measured, model: str) -> list[str]:
    """The names of cell and model, the cell's with `DIRTY` if it was measured with uncommitted changes."""
    dirty = any(entry["dirty"] for entry in cell.entries.values())
    return [code(cell.name) + (DIRTY if dirty else ""), code(model)]


def suite_notes(cells: Sequence[Measured]) -> list[str]:
    """Notes below the tables: number of seeds, machines, commits, and which cells diverged or are missing."""
    entries = [entry for cell in cells for entry in cell.entries.values()]
    lines = []
    if entries:
        seeds_of = {cell.name: len(cell.entries) for cell in cells if cell.entries and cell.by_chance}
        most = max(seeds_of.values(), default=1)
        machines = sorted({str(one["provenance"]["gpu"] or one["provenance"]["processor"]) for one in entries})
        commits = sorted({str(one["provenance"]["commit"])[:8] for one in entries})
        seconds = [one["seconds"] for one in entries]
        spent = "" if None in seconds else f" {sum(seconds) / 60:,.0f} minutes in all;"
        counted = f"{most} seed{'s' * (most > 1)}"
        lines.append(
            f"Mean ± standard deviation, {counted}; {', '.join(machines)};{spent} commit {', '.join(commits)}."
        )
        fewer = [f"{code(name)} {seeds}" for name, seeds in seeds_of.items() if seeds < most]
        lines += [f"Fewer seeds: {', '.join(fewer)}."] if fewer else []
        fixed = [cell.name for cell in cells if cell.entries and not cell.by_chance]
        lines += [f"Without any randomness, so measured once: {', '.join(map(code, fixed))}."] if fixed else []
    if any(entry["dirty"] for entry in entries):
        lines.append(f"{DIRTY} measured with changes that no commit has.")
    failed = [cell.name for cell in cells if any("diverged" in one["result"] for one in cell.entries.values())]
    if failed:
        lines.append(f"Loss not finite with some seed: {', '.join(map(code, failed))}.")
    missing = [cell.name for cell in cells if not cell.entries]
    if missing:
        lines.append(f"Not measured yet: {', '.join(map(code, missing))}.")
    return lines


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; columns in which all cells are `NOTHING` are left out."""
    kept = [n for n in range(len(titles)) if any(row[n] != NOTHING for row in rows)]
    lines = [[titles[n] for n in kept], ["---"] * len(kept), *([str(row[n]) for n in kept] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
