"""Bootstrap confidence intervals of scores, and a paired test of two models on the same examples; vectorised."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import FloatArray

Metric = Callable[[FloatArray], Mapping[str, FloatArray]]
"""From how often every example is drawn, (draws, rows), to metrics by name, (draws,) each, NaN where not defined."""

LEVEL = 0.95
LEAST_RESAMPLES = 100
CHUNK = 1 << 22
"""Largest number of counts computed at once: 32 MB."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one model is than another, on the same examples.

    Attributes:
        value: score of the first minus that of the second, on the examples as they are.
        interval: confidence interval of the difference.
        p: two-sided p-value of no difference.
    """

    value: float
    interval: Interval
    p: float


def bootstrap_intervals(metric: Metric, rows: int, *, resamples: int = 1000, seed: int = 0) -> dict[str, Interval]:
    """Percentile bootstrap intervals of all metrics that `metric` gives.

    Args:
        metric: the scores of a model.
        rows: number of examples.
        resamples: number of draws.
        seed: of the draws.

    Raises:
        BertVisionError: there are too few draws, or the seed is negative.
    """
    (draws,) = resample([metric], rows, resamples=resamples, seed=seed)
    return {name: interval_of(values) for name, values in draws.items()}


def paired_difference(
    first: Metric, second: Metric, rows: int, *, resamples: int = 1000, seed: int = 0
) -> dict[str, Difference]:
    """Paired bootstrap test: the differences of two models that are scored on the same draws.

    Args:
        first: the scores of one model.
        second: those of the other; metrics that only one has are left out.
        rows: number of examples.
        resamples: number of draws.
        seed: of the draws.

    Raises:
        BertVisionError: there are too few draws, or the seed is negative.
    """
    first_draws, second_draws = resample([first, second], rows, resamples=resamples, seed=seed)
    once = np.ones((1, rows))
    first_value, second_value = first(once), second(once)
    return {
        name: difference_of(float(first_value[name][0] - second_value[name][0]), draws - second_draws[name])
        for name, draws in first_draws.items()
        if name in second_draws
    }


def resample(
    metrics: Sequence[Metric], rows: int, *, resamples: int = 1000, seed: int = 0
) -> list[dict[str, FloatArray]]:
    """For every model, its metrics by name on the same draws of examples with replacement, (resamples,) each.

    Raises:
        BertVisionError: there are too few draws, or the seed is negative.
    """
    check_resamples(resamples, seed)
    chunks: list[list[Mapping[str, FloatArray]]] = [[] for _ in metrics]
    for counts in _draws(rows, resamples, seed):
        for parts, metric in zip(chunks, metrics, strict=True):
            parts.append(metric(counts))
    return [{name: np.concatenate([part[name] for part in parts]) for name in parts[0]} for parts in chunks]


def check_resamples(resamples: int, seed: int = 0) -> None:
    """Refuse too few draws, or a negative seed of them; to be called before long computations.

    Raises:
        BertVisionError: there are fewer than `LEAST_RESAMPLES`, or the seed is below 0.
    """
    if resamples < LEAST_RESAMPLES:
        raise BertVisionError(f"{resamples} resamples were asked for; an interval needs at least {LEAST_RESAMPLES}.")
    if seed < 0:
        raise BertVisionError(f"the seed of the resampling is {seed}, at least 0 is expected. Name another --seed.")


def interval_of(values: FloatArray) -> Interval:
    """The percentile interval of draws; NaNs are left out, and an interval of nothing but NaNs is NaN."""
    values = values[~np.isnan(values)]  # such as the F1 of answerable questions in a draw without any
    if not len(values):
        return Interval(math.nan, math.nan)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def difference_of(observed: float, draws: FloatArray) -> Difference:
    """An observed difference with the interval and p-value from its draws; NaNs among these are left out."""
    draws = draws[~np.isnan(draws)]
    beyond = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    # the examples as they are count as one more draw, so that p is never 0
    p = min(1.0, 2.0 * (beyond + 1) / (len(draws) + 1))
    return Difference(observed, interval_of(draws), p)


def _draws(rows: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    """How often each example is drawn, (draws, rows), in chunks of at most `CHUNK` numbers."""
    random = np.random.default_rng(seed)
    chunk = max(1, CHUNK // max(rows, 1))
    for begin in range(0, resamples, chunk):
        counts = np.empty((min(chunk, resamples - begin), rows))
        for draw in counts:
            draw[:] = np.bincount(random.integers(rows, size=rows), minlength=rows)
        yield counts
