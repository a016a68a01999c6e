"""Plots that can be drawn as SVG and shown as tables: scatter plots, lines with bands, ranges."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from typing_extensions import override

from bertvision.analysis.efficiency import CostRow, pareto_front
from bertvision.report import svg
from bertvision.report.numbers import NOTHING, Unit, show_interval, show_number
from bertvision.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Palette, element, shorten, text

Number = tuple[float | None, Unit, str | None]
"""A number, its unit, and the key of its record; None if that is the record of the figure."""

Row = Sequence[str | Number]
"""A row of the table of a plot."""

ROW_HEIGHT = 40
LONGEST_LABEL = 46
DASHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis.

    Attributes:
        title: with the unit.
        unit: decides the format of its numbers.
        log: whether the scale is logarithmic.
    """

    title: str
    unit: Unit = "number"
    log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A data point.

    Attributes:
        label: of its series or model.
        model: name in the palette that decides its colour.
        x, y: coordinates; `Ranges` use only x, `Bars` take x as an index.
        low, high: ends of the interval of y (in `Ranges`, of x); None without an interval.
        record: key of the record that it comes from; None if that is the record of the figure.
    """

    label: str
    model: str
    x: float
    y: float
    low: float | None = None
    high: float | None = None
    record: str | None = None


class Plot(ABC):
    """A plot, drawn as SVG or shown as a table."""

    @abstractmethod
    def draw(self, palette: Palette, *, key: str, title: str) -> str:
        """The plot as an SVG element; `key` is a prefix of ids in it."""

    @abstractmethod
    def rows(self) -> tuple[Sequence[str], Sequence[Row]]:
        """Headers and rows of a table with the numbers of the plot."""

    def legend(self) -> "list[Key]":
        """Entries of the legend; none if the plot has labels of its own."""
        return []


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An entry of a legend.

    Attributes:
        model: name in the palette that decides its colour.
        label: text of the entry.
        dash: number of the dash pattern of a line; None for marks without a line.
    """

    model: str
    label: str
    dash: int | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter(Plot):
    """A scatter plot with intervals of y; `front` adds a line through the Pareto front of high y and low x."""

    x: Axis
    y: Axis
    points: tuple[Point, ...]
    front: bool = False

    @override
    def draw(self, palette: Palette, *, key: str, title: str) -> str:
        x, y = _scales([p.x for p in self.points], ends_of(self.points), self.x)
        parts = [svg.axes(x, y, self.x.title, self.y.title)]
        if self.front:
            best = [(x.at(p.x), y.at(p.y)) for p in _front(self.points)]
            parts.append(element("polyline", points=_path(best), class_="front"))
        ends = [(p, p.low, p.high) for p in self.points if p.low is not None and p.high is not None]
        parts += [whisker(palette, p.model, x.at(p.x), y.at(low), y.at(high)) for p, low, high in ends]
        for p in self.points:
            tip = f"{p.label}: {show_number(p.y, self.y.unit)} at {show_number(p.x, self.x.unit)}"
            parts.append(palette.mark(p.model, x.at(p.x), y.at(p.y), tip))
        best_one = max(self.points, key=lambda p: p.y)
        described = (
            f"{len(self.points)} points of {self.y.title} against {self.x.title}. The highest is {best_one.label} "
            f"with {show_number(best_one.y, self.y.unit)} at {show_number(best_one.x, self.x.unit)}."
        )
        return svg.drawing("".join(parts), key=key, title=title, description=described)

    @override
    def rows(self) -> tuple[Sequence[str], Sequence[Row]]:
        rows: list[Row] = [[p.label, (p.x, self.x.unit, p.record), *_y_cells(p, self.y)] for p in self.points]
        return without_intervals(("model", self.x.title, self.y.title, "95 % interval"), rows, 3)

    @override
    def legend(self) -> list[Key]:
        return list(dict.fromkeys(Key(model=p.model, label=p.model) for p in self.points))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Plot):
    """A line for each label, with a band of the intervals, which is clipped at the frame.

    `diagonal` adds the line y = x.
    """

    x: Axis
    y: Axis
    points: tuple[Point, ...]
    diagonal: bool = False

    @override
    def draw(self, palette: Palette, *, key: str, title: str) -> str:
        x, y = _scales([p.x for p in self.points], _clipped(self.points), self.x)
        parts = [svg.axes(x, y, self.x.title, self.y.title)]
        if self.diagonal:
            ends = max(x.low, y.low), min(x.high, y.high)
            places = [(x.at(v), y.at(v)) for v in ends]
            parts.append(element("polyline", points=_path(places), class_="front"))
        series = self._series()
        for points in series.values():
            banded = [
                (x.at(p.x), y.at(p.low), y.at(p.high)) for p in points if p.low is not None and p.high is not None
            ]
            outline = [(a, max(high, y.end)) for a, _, high in banded]
            outline += [(a, min(low, y.begin)) for a, low, _ in reversed(banded)]
            if len(banded) > 1:
                band = f"band {palette.classes(points[0].model)}"
                parts.append(element("polygon", points=_path(outline), class_=band))
        for label, key_of in self._keys().items():
            points, model = series[label], key_of.model
            path = _path([(x.at(p.x), y.at(p.y)) for p in points])
            parts.append(element("polyline", points=path, class_=f"line d{key_of.dash} {palette.classes(model)}"))
            for p in points:
                tip = f"{label}: {show_number(p.y, self.y.unit)} at {show_number(p.x, self.x.unit)}"
                parts.append(palette.mark(model, x.at(p.x), y.at(p.y), tip))
        last = [f"{label} ends at {show_number(points[-1].y, self.y.unit)}" for label, points in series.items()]
        described = f"{self.y.title} against {self.x.title}. {'; '.join(last)}."
        return svg.drawing("".join(parts), key=key, title=title, description=described)

    def _series(self) -> dict[str, list[Point]]:
        ordered = sorted(self.points, key=lambda p: p.x)
        return {
            label: [p for p in ordered if p.label == label] for label in dict.fromkeys(p.label for p in self.points)
        }

    @override
    def rows(self) -> tuple[Sequence[str], Sequence[Row]]:
        rows: list[Row] = [
            [label, (p.x, self.x.unit, p.record), *_y_cells(p, self.y)]
            for label, points in self._series().items()
            for p in points
        ]
        return without_intervals(("line", self.x.title, self.y.title, "95 % interval"), rows, 3)

    @override
    def legend(self) -> list[Key]:
        return list(dict.fromkeys(self._keys().values()))

    def _keys(self) -> dict[str, Key]:
        """The entry of the legend for every label.

        Up to `DASHES` labels of a model have dash patterns of their own; if there are more, all share one entry.
        """
        by_model: dict[str, list[str]] = {}
        for label, points in self._series().items():
            by_model.setdefault(points[0].model, []).append(label)
        return {
            label: Key(model=model, label=label, dash=dash)
            if len(labels) <= DASHES
            else Key(model=model, label=f"{model} ({len(labels)})", dash=0)
            for model, labels in by_model.items()
            for dash, label in enumerate(labels)
        }


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges(Plot):
    """One row per point: its label, and x with its interval on a horizontal line; `against` is a vertical reference."""

    x: Axis
    points: tuple[Point, ...]
    against: float | None = None

    @override
    def draw(self, palette: Palette, *, key: str, title: str) -> str:
        values = [v for p in self.points for v in (p.x, p.low, p.high) if v is not None]
        x = svg.fit_scale(values, 10, WIDTH - 58, log=self.x.log)
        bottom = TOP + ROW_HEIGHT * len(self.points)
        axis = bottom + 6
        parts = []
        if self.against is not None:
            at = x.at(self.against)
            parts.append(element("line", x1=at, x2=at, y1=TOP, y2=bottom, class_="front"))
        for number, p in enumerate(self.points):
            y = TOP + ROW_HEIGHT * number + 28
            shown = show_number(p.x, self.x.unit)
            parts.append(element("line", x1=x.begin, x2=x.end, y1=y, y2=y, class_="grid"))
            parts.append(text(shorten(p.label, LONGEST_LABEL), x=10, y=y - 13, class_="label"))
            parts.append(text(shown, x=WIDTH - 4, y=y, class_="value end"))
            if p.low is not None and p.high is not None:
                colour = palette.classes(p.model)
                parts.append(element("line", x1=x.at(p.low), x2=x.at(p.high), y1=y, y2=y, class_=f"range {colour}"))
            interval = show_interval(p.low, p.high, self.x.unit)
            parts.append(palette.mark(p.model, x.at(p.x), y, f"{p.label}: {shown} ({interval})"))
        parts.append(svg.bottom_axis(x, axis, self.x.title))
        best = max(self.points, key=lambda p: p.x)
        described = f"{self.x.title} of {len(self.points)} models. {best.label} has the most: "
        described += f"{show_number(best.x, self.x.unit)}."
        return svg.drawing("".join(parts), key=key, title=title, description=described, height=axis + BOTTOM)

    @override
    def rows(self) -> tuple[Sequence[str], Sequence[Row]]:
        rows: list[Row] = [
            [p.label, (p.x, self.x.unit, p.record), show_interval(p.low, p.high, self.x.unit)] for p in self.points
        ]
        return without_intervals(("model", self.x.title, "95 % interval"), rows, 2)


def _clipped(points: Sequence[Point]) -> list[float]:
    """The values that the y axis must show: every y, and the ends of intervals, which may at most double its range.

    Intervals of few seeds may be so wide that they would hide the differences of the values.
    """
    values = [p.y for p in points]
    low, high = min(values), max(values)
    reach = (high - low) or abs(high) or 1.0
    return [min(max(value, low - reach / 2), high + reach / 2) for value in ends_of(points)]


def _front(points: Sequence[Point]) -> list[Point]:
    """The Pareto front of high y and low x, by ascending x."""
    rows = [CostRow(name=str(number), f1=p.y, parameters=0, training_seconds=p.x) for number, p in enumerate(points)]
    return [points[int(name)] for name in pareto_front(rows, "training_seconds")]


def _scales(xs: Sequence[float], ys: Sequence[float], axis: Axis) -> tuple[svg.Scale, svg.Scale]:
    x = svg.fit_scale(xs, LEFT, WIDTH - RIGHT, log=axis.log)
    return x, svg.fit_scale(ys, HEIGHT - BOTTOM, TOP)


def ends_of(points: Sequence[Point]) -> list[float]:
    """Every y, and the ends of the intervals of y."""
    return [v for p in points for v in (p.y, p.low, p.high) if v is not None]


def whisker(palette: Palette, model: str, x: float, low: float, high: float) -> str:
    """An interval as a thin vertical line from `low` to `high`, in coordinates of the drawing."""
    return element("line", x1=x, x2=x, y1=low, y2=high, class_=f"whisker {palette.classes(model)}")


def _y_cells(point: Point, axis: Axis) -> list[str | Number]:
    return [(point.y, axis.unit, point.record), show_interval(point.low, point.high, axis.unit)]


def _path(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in places)


def without_intervals(columns: Sequence[str], rows: list[Row], place: int) -> tuple[Sequence[str], Sequence[Row]]:
    """Headers and rows; the column of intervals at `place` is dropped if it is empty."""
    if any(row[place] != NOTHING for row in rows):
        return columns, rows
    return [*columns[:place], *columns[place + 1 :]], [[*row[:place], *row[place + 1 :]] for row in rows]
