"""Bootstrap confidence intervals, and a paired bootstrap test of two models; all resamples are scored at once."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import FloatArray

Metric = Callable[[FloatArray], Mapping[str, FloatArray]]
"""Scores of a model on resamples, by how often each contains every example: (draws, rows) → (draws,) each; NaN if
undefined."""

LEVEL = 0.95
LEAST_RESAMPLES = 100
CHUNK = 1 << 22
"""Most elements in one table of resamples: 32 MB."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one model is than another, on the same examples.

    Attributes:
        value: first minus second, on all examples.
        interval: interval of the difference.
        p: two-sided p-value of the hypothesis that there is no difference.
    """

    value: float
    interval: Interval
    p: float


def bootstrap_intervals(metric: Metric, rows: int, *, resamples: int = 1000, seed: int = 0) -> dict[str, Interval]:
    """Percentile bootstrap intervals of every score of `metric`."""
    (draws,) = resample([metric], rows, resamples=resamples, seed=seed)
    return {name: interval_of(values) for name, values in draws.items()}


def paired_difference(
    first: Metric, second: Metric, rows: int, *, resamples: int = 1000, seed: int = 0
) -> dict[str, Difference]:
    """Paired bootstrap test: the distribution of the difference of two models on the same resamples."""
    ours, theirs = resample([first, second], rows, resamples=resamples, seed=seed)
    as_they_are = np.ones((1, rows))
    observed = first(as_they_are), second(as_they_are)
    return {
        name: difference_of(float(observed[0][name][0] - observed[1][name][0]), ours[name] - theirs[name])
        for name in ours
        if name in theirs
    }


def resample(
    metrics: Sequence[Metric], rows: int, *, resamples: int = 1000, seed: int = 0
) -> list[dict[str, FloatArray]]:
    """Every score of every metric on the same resamples (examples drawn with replacement), (resamples,) each.

    Raises:
        BertVisionError: there are too few draws.
    """
    check_resamples(resamples)
    found: list[list[Mapping[str, FloatArray]]] = [[] for _ in metrics]
    for counts in _draws(rows, resamples, seed):
        for mine, metric in zip(found, metrics, strict=True):
            mine.append(metric(counts))
    return [{name: np.concatenate([part[name] for part in parts]) for name in parts[0]} for parts in found]


def check_resamples(resamples: int) -> None:
    """Refuse too few draws, before anything is computed for them.

    Raises:
        BertVisionError: there are too few.
    """
    if resamples < LEAST_RESAMPLES:
        raise BertVisionError(f"{resamples} resamples were asked for; an interval needs at least {LEAST_RESAMPLES}.")


def interval_of(values: FloatArray) -> Interval:
    """The middle 95 % of the values; NaN are ignored."""
    values = values[~np.isnan(values)]  # such as the score of answerable questions in a resample without any
    if not len(values):
        return Interval(math.nan, math.nan)
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(values, [tail, 1.0 - tail])
    return Interval(float(low), float(high))


def difference_of(observed: float, draws: FloatArray) -> Difference:
    """The difference `observed` on all examples, with interval and p-value from its values on resamples."""
    draws = draws[~np.isnan(draws)]
    beyond = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    # plus one, because the original sample counts as a resample: p is never 0
    p = min(1.0, 2.0 * (beyond + 1) / (len(draws) + 1))
    return Difference(observed, interval_of(draws), p)


def _draws(rows: int, resamples: int, seed: int) -> Iterator[FloatArray]:
    """How often each row occurs in every resample, (draws, rows), in chunks of at most `CHUNK` elements."""
    random = np.random.default_rng(seed)
    most = max(1, CHUNK // max(rows, 1))
    for begin in range(0, resamples, most):
        counts = np.empty((min(most, resamples - begin), rows))
        for draw in counts:
            draw[:] = np.bincount(random.integers(rows, size=rows), minlength=rows)
        yield counts
