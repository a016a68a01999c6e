"""Bars: a grouped bar chart over categories, such as labels or question words."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import final

from typing_extensions import override

from bertvision.report import svg
from bertvision.report.numbers import show_interval, show_number
from bertvision.report.plots import Axis, Key, Plot, Point, Row, ends_of, whisker, without_intervals
from bertvision.report.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Palette, element, shorten, text


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(Plot):
    """A grouped bar chart: one group of bars for each of `places`, with one bar for each label of the points."""

    places: tuple[str, ...]
    x_title: str
    y: Axis
    points: tuple[Point, ...]
    """`x` is an index into `places`, `y` the height of the bar."""

    @override
    def draw(self, palette: Palette, *, key: str, title: str) -> str:
        labels = list(dict.fromkeys(p.label for p in self.points))
        y = svg.fit_scale([*ends_of(self.points), 0.0], HEIGHT - BOTTOM, TOP)
        step = (WIDTH - LEFT - RIGHT) / len(self.places)
        width = min(step * 0.8 / len(labels), 40.0)
        parts = []
        for tick in y.ticks():
            at = y.at(tick)
            parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=at, y2=at, class_="grid"))
            parts.append(text(svg.tick_label(tick), x=LEFT - 8, y=at, class_="tick end"))
        zero = y.at(0.0)
        for p in self.points:
            begin = LEFT + step * (p.x + 0.5) + width * (labels.index(p.label) - len(labels) / 2)
            tip = f"{p.label}, {self.places[int(p.x)]}: {show_number(p.y, self.y.unit)}"
            top, height = min(y.at(p.y), zero), abs(y.at(p.y) - zero)
            bar = element("rect", x=begin, y=top, width=max(width - 1.5, 1), height=height)
            tipped = bar + element("title", escape(tip))
            parts.append(element("g", tipped, class_=f"bar {palette.classes(p.model)}"))
            if p.low is not None and p.high is not None:
                parts.append(whisker(palette, "", begin + width / 2, y.at(p.low), y.at(p.high)))
        parts.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=zero, y2=zero, class_="base"))
        room = max(int(step / 7.5), 2)
        every = max(1, round(24 / step))
        for number, place in enumerate(self.places):
            if number % every == 0:
                shown = shorten(place, room)
                parts.append(text(shown, x=LEFT + step * (number + 0.5), y=HEIGHT - BOTTOM + 19, class_="tick middle"))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        parts.append(text(self.x_title, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - BOTTOM + 42, class_="axis"))
        parts.append(text(self.y.title, x=12, y=middle, class_="axis", transform=f"rotate(-90 12 {middle:.0f})"))
        described = f"{self.y.title} by {self.x_title}, for {', '.join(labels)}."
        return svg.drawing("".join(parts), key=key, title=title, description=described)

    @override
    def rows(self) -> tuple[Sequence[str], Sequence[Row]]:
        rows: list[Row] = [
            [p.label, self.places[int(p.x)], (p.y, self.y.unit, p.record), show_interval(p.low, p.high, self.y.unit)]
            for p in self.points
        ]
        return without_intervals(("model", self.x_title, self.y.title, "95 % interval"), rows, 3)

    @override
    def legend(self) -> list[Key]:
        return list(dict.fromkeys(Key(model=p.model, label=p.label) for p in self.points))
