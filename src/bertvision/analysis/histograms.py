"""How scores are spread, and how predicted ones lie against true ones."""

from dataclasses import dataclass

import numpy as np

from bertvision.analysis.checks import check_rows
from bertvision.errors import BertVisionError
from bertvision.tasks.examples import FloatArray


@dataclass(frozen=True, slots=True)
class ScoreHistogram:
    """Scores in bins of equal width.

    Attributes:
        edges: (bins + 1,) where bins begin and end; the last one's upper edge belongs to it.
        golds: (bins,) counts of true scores.
        predictions: (bins,) counts of predicted scores; those beyond the limits count in the outermost bins.
        outside: predictions beyond the limits.
    """

    edges: tuple[float, ...]
    golds: tuple[int, ...]
    predictions: tuple[int, ...]
    outside: int


@dataclass(frozen=True, slots=True)
class Scatter:
    """Predicted against true scores, point by point.

    Attributes:
        golds: (points,).
        predictions: (points,).
    """

    golds: tuple[float, ...]
    predictions: tuple[float, ...]


def scatter(golds: FloatArray, predictions: FloatArray, *, most: int = 1000) -> Scatter:
    """Predicted against true scores; of more examples than `most`, that many at equal distances.

    Args:
        golds: (rows,).
        predictions: (rows,).
        most: points.

    Raises:
        BertVisionError: there are more or fewer predictions than golds, or fewer than one point was asked for.
    """
    check_rows(len(golds), len(predictions), "predictions")
    if most < 1:
        raise BertVisionError(f"{most} points were asked for; at least 1 is expected.")
    rows = np.arange(min(len(golds), most)) * len(golds) // min(len(golds), most) if len(golds) else np.arange(0)
    return Scatter(tuple(golds[rows].tolist()), tuple(predictions[rows].tolist()))


def score_histogram(
    golds: FloatArray, predictions: FloatArray, *, limits: tuple[float, float], bins: int = 10
) -> ScoreHistogram:
    """Count true and predicted scores.

    Args:
        golds: (rows,).
        predictions: (rows,).
        limits: smallest and largest legal score, as a task has them.
        bins: how many.

    Raises:
        BertVisionError: there are more or fewer predictions than golds, or a score or bin cannot be.
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
    inside = np.clip(predictions, low, high)
    return ScoreHistogram(
        tuple(edges.tolist()),
        tuple(np.histogram(golds, edges)[0].tolist()),
        tuple(np.histogram(inside, edges)[0].tolist()),
        int((inside != predictions).sum()),
    )
