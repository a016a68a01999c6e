"""One way of writing every number."""

import math

import pytest

from bertvision.report.numbers import (
    NOTHING,
    Unit,
    metric_words,
    score_unit,
    show_difference,
    show_interval,
    show_number,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (71.349, "percent", "71.3"),
        (0.43749, "share", "0.437"),
        (1234567, "count", "1,234,567"),
        (0.0724, "seconds", "0.0724"),
        (1234.56, "seconds", "1,234.6"),
        (0.0002, "number", "0.0002"),
        (12345.6, "number", "12,345.6"),
        (-1e-5, "number", "\N{MINUS SIGN}1e\N{MINUS SIGN}05"),
        (1e-5, "number", "1e\N{MINUS SIGN}05"),
        (0.0004, "p", "<0.001"),
        (0.0461, "p", "0.046"),
        (-5.64, "percent", "\N{MINUS SIGN}5.6"),
        (-0.0001, "share", "0.000"),
        (None, "percent", NOTHING),
        (math.nan, "share", NOTHING),
        (math.inf, "number", NOTHING),
    ],
)
def test_a_number_is_written_as_people_read_it(value: float | None, unit: Unit, text: str) -> None:
    assert show_number(value, unit) == text


def test_an_interval_that_nobody_knows_is_a_dash() -> None:
    assert show_interval(0.1, 0.25, "share") == "0.100 to 0.250"
    assert show_interval(None, 0.25, "share") == NOTHING


def test_a_difference_has_its_sign() -> None:
    shown = [show_difference(value, "share") for value in (0.2, -0.2, 0.0, None)]
    assert shown == ["+0.200", "\N{MINUS SIGN}0.200", "0.000", NOTHING]


def test_scores_of_questions_alone_are_percent() -> None:
    assert score_unit(["f1", "exact"]) == score_unit(["exact_match", "f1"]) == "percent"
    assert score_unit(["accuracy", "f1"]) == "share"


def test_a_metric_is_named_with_its_unit() -> None:
    assert metric_words("f1", "percent", "threshold zero") == "f1 (in %, threshold zero)"
    assert metric_words("accuracy", "share") == "accuracy (0 to 1)"
    assert metric_words("held-out pearson", "share") == "held-out pearson (at most 1)"
