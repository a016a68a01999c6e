"""Gold and predicted scores: their histograms, and a scatter plot of one against the other."""

from dataclasses import dataclass

import numpy as np

from bertvision.analysis.checks import check_rows
from bertvision.errors import BertVisionError
from bertvision.tasks.examples import FloatArray


@dataclass(frozen=True, slots=True)
class ScoreHistogram:
    """Histograms of gold and predicted scores, in the same bins of equal width.

    Attributes:
        edges: (bins + 1,) edges of the bins; each bin includes its lower edge, and the last its upper edge, too.
        golds: (bins,) counts of gold scores.
        predictions: (bins,) counts of predicted scores; those outside the limits count in the outermost bins.
        outside: number of predictions outside the limits.
    """

    edges: tuple[float, ...]
    golds: tuple[int, ...]
    predictions: tuple[int, ...]
    outside: int


@dataclass(frozen=True, slots=True)
class Scatter:
    """The points of a scatter plot.

    Attributes:
        golds: (points,) gold scores.
        predictions: (points,) predicted scores.
    """

    golds: tuple[float, ...]
    predictions: tuple[float, ...]


def scatter(golds: FloatArray, predictions: FloatArray, *, most: int = 1000) -> Scatter:
    """Gold and predicted scores as points; of more examples than `most`, that many at equal distances.

    Args:
        golds: (rows,) gold scores.
        predictions: (rows,) predicted scores.
        most: largest number of points.

    Raises:
        BertVisionError: there are more or fewer predictions than golds, or `most` is less than 1.
    """
    check_rows(len(golds), len(predictions), "predictions")
    if most < 1:
        raise BertVisionError(f"{most} points were asked for; at least 1 is expected.")
    rows = np.arange(min(len(golds), most)) * len(golds) // min(len(golds), most) if len(golds) else np.arange(0)
    return Scatter(tuple(golds[rows].tolist()), tuple(predictions[rows].tolist()))


def score_histogram(
    golds: FloatArray, predictions: FloatArray, *, limits: tuple[float, float], bins: int = 10
) -> ScoreHistogram:
    """Histograms of gold and predicted scores.

    Args:
        golds: (rows,) gold scores.
        predictions: (rows,) predicted scores.
        limits: smallest and largest valid score of the task.
        bins: number of bins.

    Raises:
        BertVisionError: there are more or fewer predictions than golds, a score is not finite, a gold score is outside
            the limits, or there is no bin.
    """
    check_rows(len(golds), len(predictions), "predictions")
    low, high = limits
    if bins < 1 or not low < high:
        raise BertVisionError(f"{bins} bins from {low:g} to {high:g}; at least one, from low to high, is expected.")
    if not (np.isfinite(golds).all() and np.isfinite(predictions).all()):
        raise BertVisionError("a score is not finite. Leave models out that failed.")
    if len(golds) and (golds.min() < low or golds.max() > high):
        raise BertVisionError(f"true scores are {golds.min():g} to {golds.max():g}; {low:g} to {high:g} are expected.")
    edges = np.linspace(low, high, bins + 1)
    clipped = np.clip(predictions, low, high)
    return ScoreHistogram(
        tuple(edges.tolist()),
        tuple(np.histogram(golds, edges)[0].tolist()),
        tuple(np.histogram(clipped, edges)[0].tolist()),
        int((clipped != predictions).sum()),
    )
