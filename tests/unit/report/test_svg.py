"""Ticks, scales, colours and elements."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bertvision.report.svg import COLOURS, SHAPES, Palette, Scale, element, fit_scale, log_ticks, nice_ticks, tick_label


def test_an_element_escapes_what_it_is_given() -> None:
    assert element("line", x1=1.50, class_="a b", aria_label='"<') == (
        '<line x1="1.5" class="a b" aria-label="&quot;&lt;"/>'
    )


@settings(max_examples=60)
@given(some.floats(-1e6, 1e6), some.floats(1e-6, 1e6))
def test_ticks_are_few_round_numbers_within_the_axis(low: float, width: float) -> None:
    ticks = nice_ticks(low, low + width)
    assert 2 <= len(ticks) <= 8
    room = 1e-6 * (abs(low) + width)
    assert all(low - room <= tick <= low + width + room for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.8, 1200.0, [1.0, 10.0, 100.0, 1000.0]), (1500.0, 30000.0, [2000.0, 5000.0, 10000.0, 20000.0])],
)
def test_ticks_of_ratios_are_powers_of_ten_or_parts_of_them(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(ticks)


def test_a_scale_holds_every_number_and_keeps_their_order() -> None:
    for log in (False, True):
        scale = fit_scale([3.0, 1.0, 70.0], 60, 460, log=log)
        places = [scale.at(value) for value in (1.0, 3.0, 70.0)]
        assert 60 <= places[0] < places[1] < places[2] <= 460


def test_a_scale_of_one_number_has_room() -> None:
    for value in (0.0, 0.5, -3.0):
        scale = fit_scale([value, value], 0, 100)
        assert 0 < scale.at(value) + 1e-9 <= 100
        assert math.isfinite(scale.at(value))


def test_equal_ratios_take_equal_room() -> None:
    scale = Scale(1.0, 100.0, 0.0, 10.0, log=True)
    assert scale.at(10.0) == pytest.approx(5.0)


def test_large_ticks_are_short() -> None:
    assert [tick_label(value) for value in (0.2, 50.0, 20_000.0, 5e6, 2e9)] == ["0.2", "50", "20k", "5M", "2G"]


def test_names_have_different_looks_until_there_are_no_more() -> None:
    names = tuple(f"head{number}" for number in range(COLOURS * len(SHAPES)))
    palette = Palette(names)
    assert len({(palette.classes(name), palette.shape(name)) for name in names}) == len(names)
    assert palette.classes("nobody") == "plain"
    assert len({palette.mark(name, 0.0, 0.0) for name in names}) == len(names)
