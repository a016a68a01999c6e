import re
from typing import Any
from xml.etree import ElementTree as ET

from bertvision.bench.plot import curve_plots
from suite_record import entry, model, record

SVG = "{http://www.w3.org/2000/svg}"
CURVE = {"0.5": model(60, epochs=0.5, seconds=5), "1": model(70, seconds=10)}


def test_every_cell_has_a_line_with_its_marks_and_its_name() -> None:
    heads = {"x@1": model(99, held_out=1, seconds=20), "y@1": model(75, seconds=21)}
    joined = {"full": model(60, epochs=0.5, seconds=10), "mean": model(80, held_out=51, seconds=30)}
    cells = [("a", "tune", CURVE), ("b", "plain", CURVE), ("c", "heads", heads), ("d", "ensemble", joined)]
    [(place, drawn)] = curve_plots(record(*(entry(name, kind, 0, models) for name, kind, models in cells))).items()
    assert place == "squad2-mpnet"
    root = ET.fromstring(drawn)  # noqa: S314 - we have just drawn it
    texts = [one.text for one in root.iter(f"{SVG}text")]
    assert {"a", "b", "c", "d"} <= set(texts)
    tips = [one.text for mark in root.iter(f"{SVG}g") for one in mark.iter(f"{SVG}title")]
    assert [tip for tip in tips if tip and tip.startswith("c")] == ["c: 75.0 at 21.0"]  # best by held-out examples
    assert [tip for tip in tips if tip and tip.startswith("d")] == ["d: 80.0 at 30.0"]  # members have no marks
    assert len(tips) == 6
    style = root.find(f"{SVG}style")
    assert style is not None
    assert ".line" in str(style.text)


def test_heads_of_an_early_snapshot_that_take_longer_than_those_of_a_later_one_are_left_out() -> None:
    def drawn(early: float) -> str:
        heads = {"x@0.5": model(60, epochs=0.5, seconds=early), "x@1": model(70, seconds=20)}
        [svg] = curve_plots(record(entry("a", "tune", 0, CURVE), entry("b", "heads", 0, heads))).values()
        return svg

    assert ">b: 60.0 at 10.0</title>" in drawn(10)
    assert ">b: 60.0 at 30.0</title>" not in drawn(30)
    assert ">b: 70.0 at 20.0</title>" in drawn(30)


def test_colours_are_written_out_for_viewers_that_know_no_variables() -> None:
    [drawn] = curve_plots(record(entry("a", "tune", 0, CURVE), entry("b", "tune", 0, CURVE))).values()
    style = str(next(ET.fromstring(drawn).iter(f"{SVG}style")).text)  # noqa: S314 - we have just drawn it
    assert "--" not in style
    assert "light-dark" not in style
    rules = dict(re.findall(r"(\.line\.c[01]) \{ fill: none; stroke: (#\w+);", style))
    assert len(set(rules.values())) == 2


def test_a_plain_loop_has_the_colour_of_ours_and_dashes() -> None:
    measured = record(*(entry(name, kind, 0, CURVE) for name, kind in (("a", "plain"), ("b", "tune"), ("c", "tune"))))
    [drawn] = curve_plots(measured).values()
    root = ET.fromstring(drawn)  # noqa: S314 - we have just drawn it
    curves = [one.attrib["class"] for one in root.iter(f"{SVG}polyline")]
    assert sorted(curves) == ["line d0 c0", "line d0 c1", "line d1 c0"]  # b, c, and a, which learns what b does
    legend = [one.attrib["class"] for one in root.iter(f"{SVG}line") if one.attrib["class"].startswith("line ")]
    assert legend == curves
    assert [one.text for one in root.iter(f"{SVG}text")][-3:] == ["b", "a", "c"]


def test_a_plain_loop_without_ours_has_a_colour_of_its_own() -> None:
    [drawn] = curve_plots(record(entry("a", "plain", 0, CURVE))).values()
    assert 'class="line d0 c0"' in drawn


def test_classes_are_judged_by_the_first_metric_of_their_task() -> None:
    def classes(accuracy: float, seconds: float) -> dict[str, Any]:
        return {**model(0, seconds=seconds), "scores": {"plain": {"f1": 0.1, "accuracy": accuracy}}}

    measured = record(entry("a", "tune", 0, {"1": classes(0.5, 5), "2": classes(0.75, 10)}))
    for one in (measured["plan"][0], measured["cells"]["a-0"]):
        one["settings"]["task"] = "sst2"
    [(place, drawn)] = curve_plots(measured).items()
    assert place == "sst2-mpnet"
    assert ">accuracy (%)</text>" in drawn
    assert ">a: 75.0 at 10.0</title>" in drawn


def test_a_correlation_is_no_percentage() -> None:
    told = {name: one | {"scores": {"plain": {"matthews": 0.5}}} for name, one in CURVE.items()}
    measured = record(entry("a", "tune", 0, told))
    for one in (measured["plan"][0], measured["cells"]["a-0"]):
        one["settings"]["task"] = "cola"
    [drawn] = curve_plots(measured).values()
    assert ">matthews (× 100)</text>" in drawn


def test_cells_that_are_not_asked_for_are_not_drawn() -> None:
    measured = record(entry("a", "tune", 0, CURVE), entry("b", "tune", 0, CURVE))
    [drawn] = curve_plots(measured, {"b"}).values()
    assert ">b</text>" in drawn
    assert ">a</text>" not in drawn


def test_several_seeds_give_a_band_of_their_range() -> None:
    better = {name: one | {"scores": {"fitted": {"f1": 90.0}}} for name, one in CURVE.items()}
    one, two = (
        curve_plots(record(*(entry("a", "tune", n, models) for n, models in enumerate(seeds))))["squad2-mpnet"]
        for seeds in ([CURVE], [CURVE, better])
    )
    assert 'class="band' not in one
    assert 'class="band' in two


def test_single_points_make_no_curve() -> None:
    assert curve_plots(record(entry("a", "tune", 0, {"1": model(70)}))) == {}
    assert curve_plots(record(more=["a"])) == {}
