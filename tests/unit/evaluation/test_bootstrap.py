import math

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.evaluation.bootstrap import Difference, Interval, Metric, bootstrap_intervals, paired_difference
from bertvision.tasks.examples import FloatArray, IntArray
from close import FLOAT64


def mean_of(values: FloatArray) -> Metric:
    return lambda rows: {"mean": float(values[rows].mean())}


def test_the_interval_of_a_proportion_is_as_wide_as_theory_says() -> None:
    values = np.repeat([0.0, 1.0], 200)
    interval = bootstrap_intervals(mean_of(values), 400, resamples=4000)["mean"]
    half = 1.96 * math.sqrt(0.5 * 0.5 / 400)
    assert [interval.low, interval.high] == pytest.approx([0.5 - half, 0.5 + half], abs=0.005)


def test_about_19_of_20_intervals_hold_the_true_value() -> None:
    random = np.random.default_rng(0)
    held = 0
    for seed in range(200):
        interval = bootstrap_intervals(mean_of(random.normal(size=40)), 40, resamples=200, seed=seed)["mean"]
        held += interval.low <= 0.0 <= interval.high
    assert 180 <= held <= 197  # three standard deviations of 200 draws at 0.95 are 9; small samples hold a bit less


def test_a_draw_has_as_many_rows_as_there_are_examples_with_repeats() -> None:
    drawn: list[IntArray] = []

    def keep(rows: IntArray) -> dict[str, float]:
        drawn.append(rows)
        return {"rows": len(rows)}

    bootstrap_intervals(keep, 7, resamples=100)
    assert len(drawn) == 100
    assert {len(rows) for rows in drawn} == {7}
    assert set(np.concatenate(drawn).tolist()) == set(range(7))
    assert any(len(set(rows.tolist())) < 7 for rows in drawn)


def test_1000_resamples_with_seed_0_are_usual() -> None:
    metric = mean_of(np.random.default_rng(0).normal(size=10))
    assert bootstrap_intervals(metric, 10) == bootstrap_intervals(metric, 10, resamples=1000, seed=0)
    other = mean_of(np.random.default_rng(1).normal(size=10))
    assert paired_difference(metric, other, 10) == paired_difference(metric, other, 10, resamples=1000, seed=0)


def test_intervals_are_the_same_for_the_same_seed_only() -> None:
    metric = mean_of(np.random.default_rng(0).normal(size=50))
    first, again, other = (bootstrap_intervals(metric, 50, resamples=100, seed=seed) for seed in (3, 3, 4))
    assert first == again != other


def test_draws_without_a_value_are_left_aside() -> None:
    values = np.array([1.0, 2.0, 3.0])

    def metric(rows: IntArray) -> dict[str, float]:
        part = values[rows[rows > 0]]  # no row at all in about one draw of 27
        return {"part": float(part.min())} if len(part) else {}

    assert bootstrap_intervals(metric, 3, resamples=300) == {"part": Interval(2.0, 3.0)}


def test_a_value_that_is_no_number_in_some_draws_is_taken_from_the_others() -> None:
    def metric(rows: IntArray) -> dict[str, float]:
        return {"some": 5.0 if 0 in rows else math.nan}

    assert bootstrap_intervals(metric, 3, resamples=200) == {"some": Interval(5.0, 5.0)}


def test_a_value_that_is_never_a_number_has_no_interval_and_no_difference() -> None:
    def never(_: IntArray) -> dict[str, float]:
        return {"never": math.nan}

    interval = bootstrap_intervals(never, 3, resamples=100)["never"]
    difference = paired_difference(never, never, 3, resamples=100)["never"]
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)
    assert math.isnan(difference.value)
    assert difference.p == 1


def test_an_obvious_difference_is_found() -> None:
    random = np.random.default_rng(0)
    worse = random.normal(size=100)
    better = worse + 1 + 0.1 * random.normal(size=100)
    found = paired_difference(mean_of(better), mean_of(worse), 100, resamples=100)["mean"]
    assert found.value == pytest.approx((better - worse).mean(), rel=FLOAT64)
    assert 0.9 < found.interval.low < found.value < found.interval.high < 1.1
    assert found.p == pytest.approx(2 / 101, rel=FLOAT64)  # no draw speaks against it; the data count as one
    turned = paired_difference(mean_of(worse), mean_of(better), 100, resamples=100)["mean"]
    assert (turned.value, turned.p) == (-found.value, found.p)


def test_no_difference_is_found_between_equals() -> None:
    metric = mean_of(np.random.default_rng(0).normal(size=30))
    expected = {"mean": Difference(0.0, Interval(0.0, 0.0), 1.0)}
    assert paired_difference(metric, metric, 30, resamples=100) == expected


def test_chance_differences_are_rarely_called_significant() -> None:
    random = np.random.default_rng(0)
    probabilities = []
    for _ in range(60):
        first, second = (mean_of(random.normal(size=60)) for _ in range(2))
        probabilities.append(paired_difference(first, second, 60, resamples=200)["mean"].p)
    assert sum(p < 0.05 for p in probabilities) <= 9  # 3 of 60 are expected
    assert max(probabilities) > 0.5


def test_both_models_are_scored_on_the_same_draws() -> None:
    first = np.arange(20.0)
    same = paired_difference(mean_of(first + 0.25), mean_of(first), 20, resamples=100)["mean"]
    assert [same.interval.low, same.interval.high] == pytest.approx([0.25, 0.25], rel=FLOAT64)


def test_only_values_that_both_models_have_are_compared() -> None:
    found = paired_difference(lambda _: {"a": 1.0, "b": 2.0}, lambda _: {"b": 1.0, "c": 0.0}, 5, resamples=100)
    assert list(found) == ["b"]


def test_too_few_resamples_are_refused() -> None:
    metric = mean_of(np.zeros(3))
    with pytest.raises(BertVisionError, match="99 resamples were asked for; an interval needs at least 100"):
        bootstrap_intervals(metric, 3, resamples=99)
    with pytest.raises(BertVisionError, match="0 resamples were asked for"):
        paired_difference(metric, metric, 3, resamples=0)
