"""bench/tables_of_spans.py, claims_of_spans.py and verdicts.py: what the documents' claims are judged by."""

import pytest

from claims_of_spans import beside, claims_table, layer_row, nearer, shorter, wilson
from close import FLOAT64
from markdown_tables import points, table
from tables_of_spans import over_seeds
from verdicts import Says, Sure, verdict

UP, DOWN, UNSURE = Sure(1.0, claimed=True), Sure(-1.0, claimed=True), Sure(5.0, claimed=False)


@pytest.mark.parametrize(
    ("tests", "says", "expected"),
    [
        ([UP], "more", "holds"),
        ([DOWN], "more", "does not hold"),
        ([UNSURE], "more", "not shown"),
        ([UP, UP, UNSURE], "more", "holds"),
        ([UP, UNSURE, UNSURE], "more", "not shown"),
        ([UP, DOWN], "more", "not shown"),
        ([DOWN], "less", "holds"),
        ([UP], "less", "does not hold"),
        ([UNSURE], "less", "not shown"),
        ([UNSURE], "same", "holds"),
        ([UP], "same", "does not hold"),
        ([DOWN], "same", "does not hold"),
    ],
)
def test_a_claim_is_judged_by_most_of_its_tests(tests: list[Sure], says: Says, expected: str) -> None:
    assert verdict(tests, says) == expected


def test_intervals_of_shares_are_those_of_textbooks() -> None:
    assert wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_a_share_differs_from_a_figure_outside_its_interval() -> None:
    assert beside(5, 10, 0.7).value == pytest.approx(-0.2, abs=FLOAT64)
    assert not beside(5, 10, 0.7).claimed
    assert beside(5, 10, 0.8).claimed


def test_nearer_looks_at_distances_on_both_sides() -> None:
    assert nearer((0.7, 100_000), (0.4, 100_000), 0.5).value == pytest.approx(0.1, abs=FLOAT64)
    assert nearer((0.7, 100_000), (0.4, 100_000), 0.5).claimed
    assert not nearer((0.7, 10), (0.4, 10), 0.5).claimed
    assert nearer((0.55, 100_000), (0.3, 100_000), 0.5).value < 0


def test_halves_of_intervals_join_by_their_squares() -> None:
    first, second = (
        {"mean": mean, "interval": {"low": mean - half, "high": mean + half}} for mean, half in ((10, 3), (16, 4))
    )
    apart, half = shorter(first, second)
    assert half == pytest.approx(5, abs=FLOAT64)
    assert apart == Sure(-6, claimed=True)
    assert shorter(first, second | {"mean": 14})[0].claimed is False


@pytest.mark.parametrize(("low", "expected"), [(0.4, "holds"), (0.2, "does not hold")])
def test_later_layers_are_favoured_if_each_has_surely_more_than_an_even_part(low: float, expected: str) -> None:
    shares = [{"low": 0.0}, {"low": 0.0}, {"low": low}]
    report = {"head": "layer_mix", "layers": [0, 1, 2], "sets": [{"shares": shares}]}
    assert layer_row({"snapshot": "1", "layer_weights": [report]})[3] == expected


def test_cells_say_where_a_number_lies() -> None:
    assert points(1.04, -0.26, 2.0) == "+1.0 (-0.3 to +2.0)"
    assert over_seeds({"mean": 0.111, "low": 0.1, "high": 0.122}, 100) == "11.1 (10.0 to 12.2)"


def test_a_table_has_a_cell_for_every_column() -> None:
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert len({line.count(" |") for line in claims_table().splitlines() if not line.startswith("|---")}) == 1
