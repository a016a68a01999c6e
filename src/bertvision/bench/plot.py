"""curve_plots: quality against training seconds as standalone SVG files, in the style of the report's plots."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.resources import files
from typing import Any

from bertvision.bench.compare import Measured, mean_and_spread, measured_cells
from bertvision.report.numbers import SIGNED
from bertvision.report.plots import Axis, Key, Lines, Point
from bertvision.report.svg import HEIGHT, LEFT, WIDTH, Palette, element, text
from bertvision.runs.judging.judge import FITTED, PLAIN, ZERO
from bertvision.tasks.load import find_task

LINE, COLUMNS, SAMPLE = 22, 2, 34
"""The legend: height of a line, number of columns, and width of the sample of a curve."""

HEADS, ENSEMBLE, TUNE, LOOP = "heads", "ensemble", "tune", "plain"


def curve_plots(record: Mapping[str, Any], only: Collection[str] | None = None) -> dict[str, str]:
    """SVG files by `TASK-ENCODER`, one for each task and encoder with a cell that was measured at several snapshots.

    Args:
        record: record of a suite.
        only: names of the cells to draw; None draws all.
    """
    groups: dict[str, list[Measured]] = {}
    for cell in measured_cells(record):
        if (only is None or cell.name in only) and _points(cell, cell.name):
            groups.setdefault(f"{cell.settings['task']}-{cell.settings['encoder']}", []).append(cell)
    return {
        name: _draw(name, cells, str(record["suite"]))
        for name, cells in groups.items()
        if any(len(_points(cell, cell.name)) > 1 for cell in cells)
    }


def _shown(cell: Measured) -> list[str]:
    """The models to draw: all snapshots; of heads the best of each snapshot by held-out score; of ensembles the best.

    Heads of a snapshot that take no less time than those of a later one are left out: one would not stop there.
    """
    if cell.kind == ENSEMBLE:
        return [cell.best()]
    if cell.kind != HEADS:
        return cell.models
    levels: dict[float, list[str]] = {}
    for model in cell.models:
        levels.setdefault(cell.over_seeds(model, lambda one: one["epochs"])[0], []).append(model)
    kept, least = list[str](), math.inf
    for _, models in sorted(levels.items(), reverse=True):
        best = cell.best(models)
        seconds, _ = mean_and_spread(cell.over_seeds(best, lambda one: one["seconds"]))
        if seconds is not None and seconds < least:
            kept, least = [best, *kept], seconds
    return kept


def _owners(cells: Sequence[Measured]) -> dict[str, str]:
    """By cell, the cell whose colour it has: itself, or for a plain loop our cell with the same `learn`."""
    ours: dict[str, str] = {}
    for cell in cells:
        if cell.kind == TUNE:
            ours.setdefault(str(cell.settings["learn"]), cell.name)
    rivals = {
        cell.name: ours[learn] for cell in cells if cell.kind == LOOP and (learn := str(cell.settings["learn"])) in ours
    }
    return {cell.name: rivals.get(cell.name, cell.name) for cell in cells}


def _points(cell: Measured, owner: str) -> list[Point]:
    """The main metric in percent against seconds of training: means over seeds, with the range of the metric."""
    points = []
    for model in _shown(cell):
        scores = cell.over_seeds(model, _main_score(cell))
        seconds = cell.over_seeds(model, lambda one: one["seconds"])
        if scores and seconds and min(seconds) > 0:
            several = len(scores) > 1
            points.append(
                Point(
                    label=cell.name,
                    model=owner,
                    x=sum(seconds) / len(seconds),
                    y=sum(scores) / len(scores),
                    low=min(scores) if several else None,
                    high=max(scores) if several else None,
                )
            )
    return points


def _main_score(cell: Measured) -> Callable[[Mapping[str, Any]], float | None]:
    """Function that reads the main metric of a model in percent: F1 at the fitted threshold, or else at 0, of spans."""
    task = find_task(str(cell.settings["task"]))
    if task.kind == "spans":
        return lambda one: one["scores"].get(FITTED, one["scores"].get(ZERO, {})).get("f1")
    return lambda one: 100.0 * one["scores"][PLAIN][task.main_metric]


def _draw(name: str, cells: Sequence[Measured], suite: str) -> str:
    """The plot: solid lines for ours, dashed lines in the same colours for plain loops."""
    owners = _owners(cells)
    task = find_task(str(cells[0].settings["task"]))
    metric = "F1, fitted threshold" if task.kind == "spans" else task.main_metric.replace("_", " ")
    ordered = sorted(cells, key=lambda cell: cell.kind == LOOP)
    lines = Lines(
        x=Axis(title="training (s)", unit="seconds", log=True),
        y=Axis(title=f"{metric} ({'× 100' if metric.endswith(SIGNED) else '%'})", unit="percent"),
        points=tuple(point for cell in ordered for point in _points(cell, owners[cell.name])),
    )
    palette = Palette(tuple(dict.fromkeys(owners[cell.name] for cell in ordered)))
    plot = lines.draw(palette, key=f"{suite}-{name}-curve", title=f"{suite}: quality against training seconds, {name}")
    legend, height = _legend(lines.legend(), palette)
    card = element("rect", x=0, y=0, width=WIDTH, height=height, class_="card")
    opening, rest = re.fullmatch(r"(<svg [^>]*>)(.*)</svg>", plot, flags=re.DOTALL).groups()  # type: ignore[union-attr]  # drawing makes no other
    opening = opening.replace(f'viewBox="0 0 {WIDTH} {HEIGHT}"', f'viewBox="0 0 {WIDTH} {height}"')
    opening = opening.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" ')
    return f"{opening}<style>{_style()}</style>{card}{rest}{legend}</svg>\n"


def _legend(keys: Sequence[Key], palette: Palette) -> tuple[str, int]:
    """The legend below the plot, column by column, and the height of the whole picture."""
    rows = math.ceil(len(keys) / COLUMNS)
    parts = []
    for number, key in enumerate(keys):
        column, row = divmod(number, rows)
        x, y = LEFT + column * (WIDTH - LEFT) / COLUMNS, HEIGHT + LINE * (row + 0.5)
        line = f"line d{key.dash} {palette.classes(key.model)}"
        parts.append(element("line", x1=x, x2=x + SAMPLE, y1=y, y2=y, class_=line))
        parts.append(palette.mark(key.model, x + SAMPLE / 2, y))
        parts.append(text(key.label, x=x + SAMPLE + 8, y=y, class_="label"))
    return "".join(parts), HEIGHT + LINE * rows + LINE // 2


def _style() -> str:
    """The report's CSS for plots in light colours, with variables replaced: few viewers but browsers support them."""
    page = files("bertvision.report").joinpath("page/page.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--(\w+): light-dark\((#\w+), #\w+\);", page))
    marks = re.findall(r"\.(\w+) { --mark: var\(--(\w+)\); }", page)
    rules = re.findall(r"^(?:\.plot (?!\.h)|\.grid|\.base|\.front|\.mark \{|\.line|\.d1|\.band).*$", page, re.MULTILINE)
    expanded = []
    for rule in rules:
        if "var(--mark)" not in rule:
            expanded.append(rule)
            continue
        selector, _, rest = rule.partition(" {")
        expanded += [f"{selector}.{name} {{{rest.replace('--mark', f'--{colour}')}" for name, colour in marks]
    style = ".plot{font-family:sans-serif}.card{fill:var(--card)}" + "".join(expanded)
    return re.sub(r"var\(--(\w+)\)", lambda match: colours[match[1]], style)
