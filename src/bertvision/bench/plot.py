"""Quality against training seconds as a picture that stands alone, in the colours and shapes of the report's plots."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from bertvision.bench.compare import Measured, measured_cells
from bertvision.report.plots import Axis, Lines, Point
from bertvision.report.svg import HEIGHT, LEFT, WIDTH, Palette, element, text
from bertvision.runs.judging.judge import FITTED, ZERO

LINE = 20
"""Room for a line of the legend."""

HEADS, ENSEMBLE = "heads", "ensemble"


def curve_plots(record: Mapping[str, Any]) -> dict[str, str]:
    """A picture for each encoder that was measured at several snapshots on questions, by its name."""
    groups: dict[str, list[Measured]] = {}
    for cell in measured_cells(record):
        if _points(cell):
            groups.setdefault(str(cell.settings["encoder"]), []).append(cell)
    return {
        encoder: _draw(encoder, cells, str(record["suite"]))
        for encoder, cells in groups.items()
        if any(len(_points(cell)) > 1 for cell in cells)
    }


def _shown(cell: Measured) -> list[str]:
    """Every snapshot, or of heads the best of each snapshot by held-out examples, of ensembles the best of all."""
    if cell.kind == ENSEMBLE:
        return [cell.best()]
    if cell.kind != HEADS:
        return cell.models
    levels: dict[float, list[str]] = {}
    for model in cell.models:
        levels.setdefault(cell.over_seeds(model, lambda one: one["epochs"])[0], []).append(model)
    return [cell.best(models) for models in levels.values()]


def _points(cell: Measured) -> list[Point]:
    """F1 at the fitted threshold over seconds of training: the mean over seeds, and their range."""
    points = []
    for model in _shown(cell):
        scores = cell.over_seeds(model, lambda one: one["scores"].get(FITTED, one["scores"].get(ZERO, {})).get("f1"))
        seconds = cell.over_seeds(model, lambda one: one["seconds"])
        if scores and seconds and min(seconds) > 0:
            several = len(scores) > 1
            points.append(
                Point(
                    label=cell.name,
                    model=cell.name,
                    x=sum(seconds) / len(seconds),
                    y=sum(scores) / len(scores),
                    low=min(scores) if several else None,
                    high=max(scores) if several else None,
                )
            )
    return points


def _draw(encoder: str, cells: Sequence[Measured], suite: str) -> str:
    names = tuple(cell.name for cell in cells)
    palette = Palette(names)
    lines = Lines(
        x=Axis(title="training (s)", unit="seconds", log=True),
        y=Axis(title="F1, fitted threshold (%)", unit="percent"),
        points=tuple(point for cell in cells for point in _points(cell)),
    )
    drawn = lines.draw(palette, key=f"{suite}-curve", title=f"{suite}: quality against training seconds, {encoder}")
    legend = []
    for number, name in enumerate(names):
        y = HEIGHT + LINE * number + LINE / 2
        legend += [palette.mark(name, LEFT, y), text(name, x=LEFT + 14, y=y, class_="label")]
    height = HEIGHT + LINE * len(names) + LINE / 2
    card = element("rect", x=0, y=0, width=WIDTH, height=height, class_="card")
    opening, rest = re.fullmatch(r"(<svg [^>]*>)(.*)</svg>", drawn, flags=re.DOTALL).groups()  # type: ignore[union-attr]  # drawing makes no other
    opening = opening.replace(f'viewBox="0 0 {WIDTH} {HEIGHT}"', f'viewBox="0 0 {WIDTH} {height:.0f}"')
    opening = opening.replace("<svg ", f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" ')
    return f"{opening}<style>{_style()}</style>{card}{rest}{''.join(legend)}</svg>\n"


def _style() -> str:
    """The report's style of plots, in its light colours: a picture in a document does not know the reader's choice."""
    page = files("bertvision.report").joinpath("page/page.css").read_text(encoding="utf-8")
    colours = re.findall(r"(--[\w]+): light-dark\((#\w+), #\w+\);", page)
    kept = re.findall(
        r"^(?:\.plot (?!\.h)|\.grid|\.base|\.front|\.c\d|\.plain|\.mark \{|\.line|\.d1|\.band).*$", page, re.MULTILINE
    )
    root = "".join(f"{name}:{value};" for name, value in colours)
    return f".plot{{{root}font-family:sans-serif}}.card{{fill:var(--card)}}" + "".join(kept)
