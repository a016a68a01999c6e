"""Plots draw what they are given, tell it as a table, and say what colours mean."""

import re
from xml.etree import ElementTree as ET

import pytest

from bertvision.report.bars import Bars
from bertvision.report.heat import HeatMap
from bertvision.report.plots import Axis, Lines, Plot, Point, Ranges, Scatter
from bertvision.report.svg import WIDTH, Palette
from report_files import EVIL

PALETTE = Palette(("own", "mix", EVIL))
X, Y = Axis(title="cost (s)", unit="seconds", log=True), Axis(title="F1 (in %)", unit="percent")
POINTS = (
    Point(label=EVIL, model=EVIL, x=1.0, y=50.26, low=45.0, high=55.0, record="r1"),
    Point(label="b", model="mix", x=10.0, y=70.0),
    Point(label="b", model="mix", x=100.0, y=60.0),
)
FLAT = (Point(label="a", model="mix", x=2.0, y=0.0),)
PLOTS: dict[str, Plot] = {
    "scatter": Scatter(x=X, y=Y, points=POINTS, front=True),
    "lines": Lines(x=X, y=Y, points=POINTS, diagonal=False),
    "ranges": Ranges(x=X, points=POINTS, against=5.0),
    "bars": Bars(places=("who", EVIL), x_title="word", y=Y, points=(Point(label="a", model="mix", x=1.0, y=50.26),)),
    "heat": HeatMap(
        rows_title="true", columns_title="said", labels=("a", EVIL), columns=("a", EVIL), values=((3, 1), (0, 0))
    ),
    "one point": Scatter(x=Axis(title="x"), y=Y, points=FLAT),
    "one line": Lines(x=Axis(title="x"), y=Y, points=FLAT),
    "one range": Ranges(x=Axis(title="x"), points=FLAT),
}
SVG = "{http://www.w3.org/2000/svg}"


def drawn(plot: Plot) -> ET.Element:
    text = plot.draw(PALETTE, key="k", title=EVIL)
    return ET.fromstring(text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))  # noqa: S314 - our own


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_a_picture_is_whole_has_a_title_and_a_description_and_stays_within_its_frame(plot: Plot) -> None:
    root = drawn(plot)
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "k-title k-desc"
    assert [one.text for one in root.findall(f"{SVG}title")] == [EVIL]
    (description,) = root.findall(f"{SVG}desc")
    assert description.text
    height = float((root.get("viewBox") or "").split()[3])
    for mark in root.iter(f"{SVG}circle"):
        assert 0 <= float(mark.get("cx", "nan")) <= WIDTH
        assert 0 <= float(mark.get("cy", "nan")) <= height
    for words in root.iter(f"{SVG}text"):  # of 14 pixels, around their middle; below them hang letters such as g
        assert float(words.get("y", "nan")) + 10 <= height


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_no_picture_has_colours_of_its_own(plot: Plot) -> None:
    text = plot.draw(PALETTE, key="k", title="t")
    assert not re.search(r"(fill|stroke|style)=", text)


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_the_numbers_are_told_as_a_table(plot: Plot) -> None:
    columns, rows = plot.rows()
    assert rows
    assert all(len(row) == len(columns) for row in rows)


def test_intervals_are_told_where_there_are_any() -> None:
    columns, rows = PLOTS["scatter"].rows()
    assert columns == ("model", "cost (s)", "F1 (in %)", "95 % interval")
    assert rows[0] == [EVIL, (1.0, "seconds", "r1"), (50.26, "percent", "r1"), "45.0 to 55.0"]
    assert "95 % interval" not in PLOTS["one point"].rows()[0]


def test_the_front_joins_what_no_cheaper_one_matches() -> None:
    (front,) = [line for line in drawn(PLOTS["scatter"]).iter(f"{SVG}polyline") if line.get("class") == "front"]
    assert len((front.get("points") or "").split()) == 2  # the third costs more than the second, and is worse


def test_lines_of_one_model_have_dashes_of_their_own_unless_they_are_many() -> None:
    two = Lines(x=X, y=Y, points=tuple(Point(label=name, model="mix", x=1.0, y=1.0) for name in "ab"))
    assert [(key.label, key.dash) for key in two.legend()] == [("a", 0), ("b", 1)]
    four = Lines(x=X, y=Y, points=tuple(Point(label=name, model="mix", x=1.0, y=1.0) for name in "abcd"))
    assert [(key.label, key.dash) for key in four.legend()] == [("mix (4)", 0)]


def test_a_line_goes_from_left_to_right_whatever_the_order_of_its_points() -> None:
    plot = Lines(x=X, y=Y, points=tuple(reversed(POINTS)))
    columns, rows = plot.rows()
    assert columns[1] == "cost (s)"
    assert [row[1] for row in rows if row[0] == "b"] == [(10.0, "seconds", None), (100.0, "seconds", None)]


def test_a_heat_map_shades_rows_by_their_own_sum() -> None:
    root = drawn(PLOTS["heat"])
    shades = [group.get("class") for group in root.iter(f"{SVG}g")]
    assert shades == ["heat h4", "heat h2", "heat h0", "heat h0"]


def test_bars_may_hang_below_zero() -> None:
    bars = Bars(
        places=("a",), x_title="x", y=Y, points=(Point(label="l", model="mix", x=0.0, y=-5.0, low=-6, high=-4),)
    )
    (rectangle,) = drawn(bars).iter(f"{SVG}rect")
    assert float(rectangle.get("height", "0")) > 10
