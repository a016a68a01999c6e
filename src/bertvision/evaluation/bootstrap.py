"""How sure a score is: bootstrap intervals, and a paired test of two models on the same examples."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import FloatArray, IntArray

Metric = Callable[[IntArray], Mapping[str, float]]
"""Scores of a model on the given rows, with repeats."""

LEVEL = 0.95
LEAST_RESAMPLES = 100


@dataclass(frozen=True, slots=True)
class Interval:
    """Where a value lies with 95 % confidence."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one model is than another, on the same examples.

    Attributes:
        value: first minus second, on all examples.
        interval: of the difference.
        p: two-sided probability of a difference this far from zero if there were none.
    """

    value: float
    interval: Interval
    p: float


def bootstrap_intervals(metric: Metric, rows: int, *, resamples: int = 1000, seed: int = 0) -> dict[str, Interval]:
    """Percentile intervals of every value that `metric` gives, over examples drawn with replacement."""
    draws = _draw(metric, rows, resamples, seed)
    return {name: _interval(values) for name, values in draws.items()}


def paired_difference(
    first: Metric, second: Metric, rows: int, *, resamples: int = 1000, seed: int = 0
) -> dict[str, Difference]:
    """Paired bootstrap test: both models are scored on the same draws, and their difference is what varies."""

    def difference(chosen: IntArray) -> dict[str, float]:
        ours, theirs = first(chosen), second(chosen)
        return {name: ours[name] - theirs[name] for name in ours if name in theirs}

    observed = difference(np.arange(rows))
    results = {}
    for name, values in _draw(difference, rows, resamples, seed).items():
        beyond = min(int((values <= 0).sum()), int((values >= 0).sum()))
        # one is added, since the data as they are count as a draw: p is never 0
        p = min(1.0, 2.0 * (beyond + 1) / (len(values) + 1))
        results[name] = Difference(observed[name], _interval(values), p)
    return results


def _draw(metric: Metric, rows: int, resamples: int, seed: int) -> dict[str, FloatArray]:
    if resamples < LEAST_RESAMPLES:
        raise BertVisionError(f"{resamples} resamples were asked for; an interval needs at least {LEAST_RESAMPLES}.")
    random = np.random.default_rng(seed)
    draws = [metric(random.integers(rows, size=rows)) for _ in range(resamples)]
    # a draw may lack a value, such as that of answerable questions when it holds none, or have NaN for a correlation
    names = dict.fromkeys(name for draw in draws for name in draw)
    columns = {name: np.array([draw[name] for draw in draws if name in draw], dtype=np.float64) for name in names}
    return {name: values[~np.isnan(values)] for name, values in columns.items()}


def _interval(values: FloatArray) -> Interval:
    if not len(values):
        return Interval(math.nan, math.nan)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return Interval(float(low), float(high))
