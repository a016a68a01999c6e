"""Are probabilities what they say? A temperature fitted on held-out examples, and reliability before and after."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertvision.analysis.checks import check_classes, check_rows
from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import SpanPredictions
from bertvision.evaluation.held_out import check_unseen
from bertvision.tasks.examples import FloatArray, IntArray

LIMITS = (0.05, 20.0)
"""Smallest and largest temperature: where all is right, or nothing, there is no best one."""

GRID = 49
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
STEPS = 40
"""Steps of the golden-section search: they leave less than 1e-8 of the stretch between two points of the grid."""

LEAST = 1e-12
"""Smallest probability in a logarithm."""


@dataclass(frozen=True, slots=True)
class Temperature:
    """Logits are divided by `value` before the softmax.

    Attributes:
        value: above 1 makes a model less sure.
        loss: mean log-loss on the examples it was fitted on.
        plain_loss: the same with a temperature of 1.
        fitted_on: their ids; it is not applied to any of them.
    """

    value: float
    loss: float
    plain_loss: float
    fitted_on: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Examples whose confidence lies in a stretch: above `low`, at most `high`.

    Attributes:
        low: low end of the stretch.
        high: high end of the stretch.
        count: how many examples there are.
        confidence: their mean; None without any.
        accuracy: the part of them that is right, 0 to 1; None without any.
    """

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Reliability:
    """How well confidence says what is right.

    Attributes:
        count: how many examples there are.
        confidence: the mean, 0 to 1.
        accuracy: the part that is right, 0 to 1.
        error: expected calibration error: |accuracy - confidence| of the bins, weighted by their examples.
        bins: stretches of equal width.
    """

    count: int
    confidence: float
    accuracy: float
    error: float
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Reliability with and without a temperature.

    Attributes:
        temperature: its value.
        fitted_on: on how many held-out examples.
        before: with a temperature of 1.
        after: with this one.
    """

    temperature: float
    fitted_on: int
    before: Reliability
    after: Reliability


def answer_logits(predictions: SpanPredictions, *, threshold: float = 0.0) -> FloatArray:
    """Logits of "no answer" (first) and of the n best answers, (questions, 1 + best).

    "No answer" is the largest exactly where the threshold says so.
    """
    return np.concatenate([predictions.null[:, None] - threshold, predictions.scores], axis=1)


def confidences(logits: FloatArray, temperature: float = 1.0) -> FloatArray:
    """The probability of what is most likely, (rows,)."""
    scaled = logits / temperature
    return np.asarray(1.0 / np.exp(scaled - scaled.max(axis=1, keepdims=True)).sum(axis=1), dtype=np.float64)


def fit_temperature(logits: FloatArray, golds: IntArray, *, ids: Sequence[str]) -> Temperature:
    """The temperature with the least log-loss of the right classes (Guo et al. 2017).

    Args:
        logits: (rows, classes) of held-out examples.
        golds: (rows,) right classes.
        ids: (rows,).

    Raises:
        BertVisionError: there is no row, columns have different lengths, or a class or logit cannot be.
    """
    _check(logits, len(golds), ids)
    check_classes(golds, logits.shape[1], "golds")
    right = logits[np.arange(len(logits)), golds]
    most = logits.max(axis=1)

    def loss(temperature: float) -> float:
        # log p = (right - most) / T + log of the largest class's probability
        largest = np.log(confidences(logits, temperature))
        return -float(((right - most) / temperature + largest).mean())

    return _fitted(loss, ids)


def fit_answer_temperature(logits: FloatArray, right: NDArray[np.bool_], *, ids: Sequence[str]) -> Temperature:
    """The temperature with the least log-loss of "the most likely answer is right".

    For answers, of which several may be right, or none of the n best.

    Args:
        logits: (questions, answers) of held-out questions; see `answer_logits`.
        right: (questions,) whether the most likely answer is.
        ids: (questions,).

    Raises:
        BertVisionError: there is no question, columns have different lengths, or a logit cannot be.
    """
    _check(logits, len(right), ids)

    def loss(temperature: float) -> float:
        sure = confidences(logits, temperature)
        likely = np.where(right, sure, 1.0 - sure)
        return -float(np.log(np.maximum(likely, LEAST)).mean())

    return _fitted(loss, ids)


def calibrate(
    temperature: Temperature, logits: FloatArray, *, right: NDArray[np.bool_], ids: Sequence[str], bins: int = 15
) -> Calibration:
    """Reliability of a model's most likely answers with and without a temperature.

    Args:
        temperature: fitted on other examples.
        logits: (rows, classes or answers).
        right: (rows,) whether the most likely is right.
        ids: (rows,).
        bins: bins of equal width.

    Raises:
        BertVisionError: the temperature was fitted on one of these examples, or columns have different lengths.
    """
    _check(logits, len(right), ids)
    check_unseen("temperature", temperature.fitted_on, ids)
    before, after = (reliability(confidences(logits, value), right, bins=bins) for value in (1.0, temperature.value))
    return Calibration(temperature.value, len(temperature.fitted_on), before, after)


def reliability(confidence: FloatArray, right: NDArray[np.bool_], *, bins: int = 15) -> Reliability:
    """Confidence against accuracy, in bins of equal width.

    Args:
        confidence: (rows,) 0 to 1.
        right: (rows,).
        bins: how many.

    Raises:
        BertVisionError: there is no row or bin, columns have different lengths, or a confidence cannot be.
    """
    check_rows(len(confidence), len(right), "right or wrong marks")
    if not len(confidence) or bins < 1:
        raise BertVisionError(f"{len(confidence)} confidences in {bins} bins; at least one of each is expected.")
    if not ((confidence >= 0.0) & (confidence <= 1.0)).all():
        raise BertVisionError(f"confidences are {confidence.min():g} to {confidence.max():g}; 0 to 1 is expected.")
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    filled = np.maximum(counts, 1)
    sure = np.bincount(place, weights=confidence, minlength=bins) / filled
    true = np.bincount(place, weights=right.astype(np.float64), minlength=bins) / filled
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), sure.tolist(), true.tolist(), strict=True)
    return Reliability(
        count=len(confidence),
        confidence=float(confidence.mean()),
        accuracy=float(right.mean()),
        error=float((counts * np.abs(true - sure)).sum() / len(confidence)),
        bins=tuple(
            ReliabilityBin(low, high, count, mean if count else None, part if count else None)
            for low, high, count, mean, part in rows
        ),
    )


def _check(logits: FloatArray, rows: int, ids: Sequence[str]) -> None:
    if logits.ndim != 2 or not logits.size:
        raise BertVisionError(f"logits have shape {logits.shape}; (rows, classes) with a row is expected.")
    check_rows(len(logits), rows, "golds or marks")
    check_rows(len(logits), len(ids), "ids")
    # -inf stands where a question has fewer answers, but something must be possible
    if np.isnan(logits).any() or not np.isfinite(logits.max(axis=1)).all():
        raise BertVisionError("logits are NaN, or all of a row infinite; finite ones are expected.")


def _fitted(loss: Callable[[float], float], ids: Sequence[str]) -> Temperature:
    """Search on a grid of logarithms, then by golden sections around its best point."""
    grid = np.linspace(math.log(LIMITS[0]), math.log(LIMITS[1]), GRID)
    best = int(np.argmin([loss(math.exp(place)) for place in grid]))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, GRID - 1)])
    for _ in range(STEPS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if loss(math.exp(left)) <= loss(math.exp(right)):
            high = right
        else:
            low = left
    value = math.exp((low + high) / 2.0)
    return Temperature(value, loss(value), loss(1.0), frozenset(ids))
