"""Means over seeds, with confidence intervals."""

from dataclasses import dataclass

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.evaluation.bootstrap import LEVEL
from bertvision.tasks.examples import FloatArray


@dataclass(frozen=True, slots=True)
class SeedMean:
    """A value over seeds.

    Attributes:
        mean: mean over the seeds.
        low: lower end of the mean's 95 % confidence interval, by Student's t; None with one seed.
        high: its upper end.
        seeds: number of seeds.
    """

    mean: float
    low: float | None
    high: float | None
    seeds: int


def seed_means(values: FloatArray) -> tuple[SeedMean, ...]:
    """The mean over seeds of every column of `values`, (seeds, columns).

    Raises:
        BertVisionError: there is no seed, or a value is not finite.
    """
    if values.ndim != 2 or not len(values):
        raise BertVisionError(f"values over seeds have shape {values.shape}; (seeds, columns) with a seed is expected.")
    if not np.isfinite(values).all():
        raise BertVisionError("a value over seeds is not finite. Leave runs out that failed.")
    seeds = len(values)
    means = values.mean(axis=0).tolist()
    if seeds == 1:
        return tuple(SeedMean(mean, None, None, seeds) for mean in means)
    from scipy.special import stdtrit  # noqa: PLC0415 - only where there are several seeds

    quantile = float(stdtrit(seeds - 1, (1.0 + LEVEL) / 2.0))
    errors = (quantile * values.std(axis=0, ddof=1) / np.sqrt(seeds)).tolist()
    return tuple(SeedMean(mean, mean - error, mean + error, seeds) for mean, error in zip(means, errors, strict=True))
