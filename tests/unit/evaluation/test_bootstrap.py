import math

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.evaluation import bootstrap
from bertvision.evaluation.bootstrap import (
    Difference,
    Interval,
    Metric,
    bootstrap_intervals,
    paired_difference,
    resample,
)
from bertvision.tasks.examples import FloatArray
from close import FLOAT64


def mean_of(values: FloatArray) -> Metric:
    return lambda counts: {"mean": counts @ values / counts.sum(axis=1)}


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
    drawn: list[FloatArray] = []

    def keep(counts: FloatArray) -> dict[str, FloatArray]:
        drawn.append(counts)
        return {"rows": counts.sum(axis=1)}

    bootstrap_intervals(keep, 7, resamples=100)
    draws = np.concatenate(drawn)
    assert draws.shape == (100, 7)
    assert set(draws.sum(axis=1).tolist()) == {7}
    assert (draws.sum(axis=0) > 0).all()
    assert (draws > 1).any()


def test_draws_are_the_same_however_many_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = mean_of(np.random.default_rng(0).normal(size=30))
    whole = resample([metric], 30, resamples=101)[0]["mean"]
    monkeypatch.setattr(bootstrap, "CHUNK", 100)
    assert resample([metric], 30, resamples=101)[0]["mean"] == pytest.approx(whole, rel=FLOAT64, abs=FLOAT64)
    assert len(whole) == 101


def test_no_table_of_draws_is_larger_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []

    def note(counts: FloatArray) -> dict[str, FloatArray]:
        shapes.append(counts.shape)
        return {"rows": counts.sum(axis=1)}

    monkeypatch.setattr(bootstrap, "CHUNK", 160)
    resample([note], 4, resamples=100)
    assert shapes == [(40, 4), (40, 4), (20, 4)]


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
    def metric(counts: FloatArray) -> dict[str, FloatArray]:
        return {"some": np.where(counts[:, 0] > 0, 5.0, math.nan)}

    assert bootstrap_intervals(metric, 3, resamples=200) == {"some": Interval(5.0, 5.0)}


def test_a_value_that_is_never_a_number_has_no_interval_and_no_difference() -> None:
    def never(counts: FloatArray) -> dict[str, FloatArray]:
        return {"never": np.full(len(counts), math.nan)}

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
    def first(counts: FloatArray) -> dict[str, FloatArray]:
        return {"a": counts[:, 0], "b": counts[:, 1]}

    def second(counts: FloatArray) -> dict[str, FloatArray]:
        return {"b": counts[:, 1], "c": counts[:, 2]}

    found = paired_difference(first, second, 5, resamples=100)
    assert list(found) == ["b"]


def test_too_few_resamples_are_refused() -> None:
    metric = mean_of(np.zeros(3))
    with pytest.raises(BertVisionError, match="99 resamples were asked for; an interval needs at least 100"):
        bootstrap_intervals(metric, 3, resamples=99)
    with pytest.raises(BertVisionError, match="0 resamples were asked for"):
        paired_difference(metric, metric, 3, resamples=0)


def test_a_negative_seed_is_refused() -> None:
    metric = mean_of(np.zeros(3))
    with pytest.raises(BertVisionError, match="the seed of the resampling is -1, at least 0 is expected"):
        bootstrap_intervals(metric, 3, resamples=100, seed=-1)
