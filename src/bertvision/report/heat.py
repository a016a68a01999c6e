"""HeatMap: a matrix of counts, such as a confusion matrix."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import final

from typing_extensions import override

from bertvision.report import svg
from bertvision.report.numbers import show_number
from bertvision.report.plots import Plot, Row
from bertvision.report.svg import BOTTOM, TOP, WIDTH, Palette, element, shorten, text

LEFT, RIGHT = 118, 18
LONGEST_LABEL = 13
SHADES = 5
MOST_LABELLED = 14


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap(Plot):
    """A matrix as shades; every row is normalised by its sum, so that rare labels are visible, too.

    Attributes:
        rows_title: what the rows are.
        columns_title: what the columns are.
        labels: (rows,) their names.
        columns: (columns,) their names.
        values: (rows, columns) counts, not normalised.
    """

    rows_title: str
    columns_title: str
    labels: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    @override
    def draw(self, palette: Palette, *, key: str, title: str) -> str:
        wide = (WIDTH - LEFT - RIGHT) / len(self.columns)
        tall = min(max(wide * 0.6, 22.0), 48.0)
        bottom = TOP + tall * len(self.labels)
        parts = []
        for number, (label, values) in enumerate(zip(self.labels, self.values, strict=True)):
            y, total = TOP + tall * number, sum(values) or 1.0
            parts.append(text(shorten(label, LONGEST_LABEL), x=LEFT - 8, y=y + tall / 2, class_="tick end"))
            for place, value in enumerate(values):
                shade = min(int(max(value / total, 0.0) * SHADES), SHADES - 1) + (value > 0)
                shown = show_number(value, "count")
                tip = f"{self.rows_title} {label}, {self.columns_title} {self.columns[place]}: {shown}"
                x = LEFT + wide * place
                square = element("rect", x=x + 1, y=y + 1, width=wide - 2, height=tall - 2, rx=3)
                label_in = text(shown, x=x + wide / 2, y=y + tall / 2, class_="tick middle")
                inner = square + label_in * (len(self.columns) <= MOST_LABELLED) + element("title", escape(tip))
                parts.append(element("g", inner, class_=f"heat h{shade}"))
        for place, label in enumerate(self.columns):
            room = max(int(wide / 7.5), 2)
            parts.append(text(shorten(label, room), x=LEFT + wide * (place + 0.5), y=bottom + 19, class_="tick middle"))
        middle = (TOP + bottom) / 2
        parts.append(text(self.columns_title, x=(LEFT + WIDTH - RIGHT) / 2, y=bottom + 42, class_="axis"))
        turned = f"rotate(-90 14 {middle:.0f})"
        parts.append(text(self.rows_title, x=14, y=middle, class_="axis", transform=turned))
        described = (
            f"{len(self.labels)} rows ({self.rows_title}) by {len(self.columns)} columns ({self.columns_title})."
        )
        return svg.drawing("".join(parts), key=key, title=title, description=described, height=bottom + BOTTOM)

    @override
    def rows(self) -> tuple[Sequence[str], Sequence[Row]]:
        rows: list[Row] = [
            [label, *((value, "count", None) for value in values)]
            for label, values in zip(self.labels, self.values, strict=True)
        ]
        return [f"{self.rows_title} \\ {self.columns_title}", *self.columns], rows
