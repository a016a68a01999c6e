"""Calibration: a temperature fitted on held-out examples, and how well confidence matches accuracy with and without."""

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
"""Smallest and largest temperature, since there is no best one if all predictions are right, or none."""

GRID = 49
"""Number of temperatures that are tried first, at equal distances in logarithm."""

GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
STEPS = 40
"""Steps of the golden-section search: they narrow the interval around the grid's best point to 1e-8 of it."""

MIN_PROBABILITY = 1e-12
"""Smallest probability whose logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Temperature:
    """A fitted temperature: logits are divided by `value` before the softmax.

    Attributes:
        value: the temperature; above 1 it lowers confidence.
        loss: mean log-loss on the examples it was fitted on.
        plain_loss: the same with a temperature of 1.
        fitted_on: ids of these examples; it is not applied to any of them.
    """

    value: float
    loss: float
    plain_loss: float
    fitted_on: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Examples whose confidence is above `low` and at most `high`.

    Attributes:
        low: lower edge of the bin.
        high: upper edge of the bin.
        count: number of examples.
        confidence: their mean confidence; None without examples.
        accuracy: the share of right predictions among them, 0 to 1; None without examples.
    """

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Reliability:
    """How well confidence matches accuracy.

    Attributes:
        count: number of examples.
        confidence: mean confidence, 0 to 1.
        accuracy: share of right predictions, 0 to 1.
        error: expected calibration error: the mean of |accuracy - confidence| over bins, weighted by their examples.
        bins: bins of confidence, of equal width.
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
        fitted_on: number of held-out examples that it was fitted on.
        before: with a temperature of 1.
        after: with this temperature.
    """

    temperature: float
    fitted_on: int
    before: Reliability
    after: Reliability


def answer_logits(predictions: SpanPredictions, *, threshold: float = 0.0) -> FloatArray:
    """Logits of "no answer" (first) and of the n-best answers, (questions, 1 + best).

    "No answer" has the largest logit exactly where its margin exceeds the threshold.
    """
    return np.concatenate([predictions.null[:, None] - threshold, predictions.scores], axis=1)


def confidences(logits: FloatArray, temperature: float = 1.0) -> FloatArray:
    """The probability of the most likely class or answer, (rows,)."""
    scaled = logits / temperature
    return np.asarray(1.0 / np.exp(scaled - scaled.max(axis=1, keepdims=True)).sum(axis=1), dtype=np.float64)


def fit_temperature(logits: FloatArray, golds: IntArray, *, ids: Sequence[str]) -> Temperature:
    """The temperature with the lowest log-loss of the gold classes (Guo et al., 2017).

    Args:
        logits: (rows, classes) of held-out examples.
        golds: (rows,) class numbers.
        ids: (rows,) ids of the examples.

    Raises:
        BertVisionError: there is no row, arguments differ in length, or a class number or logit is not valid.
    """
    _check(logits, len(golds), ids)
    check_classes(golds, logits.shape[1], "golds")
    gold = logits[np.arange(len(logits)), golds]
    highest = logits.max(axis=1)

    def loss(temperature: float) -> float:
        # log p(gold) = (gold - highest) / T + log p(most likely class)
        log_confidence = np.log(confidences(logits, temperature))
        return -float(((gold - highest) / temperature + log_confidence).mean())

    return _minimise(loss, ids)


def fit_answer_temperature(logits: FloatArray, right: NDArray[np.bool_], *, ids: Sequence[str]) -> Temperature:
    """The temperature with the lowest log-loss of the confidence that the most likely answer is right.

    For answers, since several of the n best may be right, or none.

    Args:
        logits: (questions, answers) of held-out questions; see `answer_logits`.
        right: (questions,) whether the most likely answer is right.
        ids: (questions,) ids of the questions.

    Raises:
        BertVisionError: there is no question, arguments differ in length, or a logit is not valid.
    """
    _check(logits, len(right), ids)

    def loss(temperature: float) -> float:
        confidence = confidences(logits, temperature)
        likelihood = np.where(right, confidence, 1.0 - confidence)
        return -float(np.log(np.maximum(likelihood, MIN_PROBABILITY)).mean())

    return _minimise(loss, ids)


def calibrate(
    temperature: Temperature, logits: FloatArray, *, right: NDArray[np.bool_], ids: Sequence[str], bins: int = 15
) -> Calibration:
    """Reliability of a model's most likely answers with and without a temperature.

    Args:
        temperature: fitted on other examples.
        logits: (rows, classes or answers).
        right: (rows,) whether the most likely class or answer is right.
        ids: (rows,) ids of the examples.
        bins: number of bins of confidence.

    Raises:
        BertVisionError: the temperature was fitted on one of these examples, arguments differ in length, or a logit is
            not valid.
    """
    _check(logits, len(right), ids)
    check_unseen("temperature", temperature.fitted_on, ids)
    before, after = (reliability(confidences(logits, value), right, bins=bins) for value in (1.0, temperature.value))
    return Calibration(temperature.value, len(temperature.fitted_on), before, after)


def reliability(confidence: FloatArray, right: NDArray[np.bool_], *, bins: int = 15) -> Reliability:
    """Confidence against accuracy, in bins of equal width.

    Args:
        confidence: (rows,) 0 to 1.
        right: (rows,) whether the prediction is right.
        bins: number of bins.

    Raises:
        BertVisionError: there is no row or bin, arguments differ in length, or a confidence is not within 0 and 1.
    """
    check_rows(len(confidence), len(right), "right or wrong marks")
    if not len(confidence) or bins < 1:
        raise BertVisionError(f"{len(confidence)} confidences in {bins} bins; at least one of each is expected.")
    if not ((confidence >= 0.0) & (confidence <= 1.0)).all():
        raise BertVisionError(f"confidences are {confidence.min():g} to {confidence.max():g}; 0 to 1 is expected.")
    edges = np.linspace(0.0, 1.0, bins + 1)
    place = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    divisors = np.maximum(counts, 1)
    means = np.bincount(place, weights=confidence, minlength=bins) / divisors
    accuracies = np.bincount(place, weights=right.astype(np.float64), minlength=bins) / divisors
    columns = (edges[:-1], edges[1:], counts, means, accuracies)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Reliability(
        count=len(confidence),
        confidence=float(confidence.mean()),
        accuracy=float(right.mean()),
        error=float((counts * np.abs(accuracies - means)).sum() / len(confidence)),
        bins=tuple(
            ReliabilityBin(low, high, count, mean if count else None, accuracy if count else None)
            for low, high, count, mean, accuracy in rows
        ),
    )


def _check(logits: FloatArray, rows: int, ids: Sequence[str]) -> None:
    """Check logits and the lengths of the columns beside them."""
    if logits.ndim != 2 or not logits.size:
        raise BertVisionError(f"logits have shape {logits.shape}; (rows, classes) with a row is expected.")
    check_rows(len(logits), rows, "golds or marks")
    check_rows(len(logits), len(ids), "ids")
    # a question with fewer answers has logits of -inf, but not all of them
    if np.isnan(logits).any() or not np.isfinite(logits.max(axis=1)).all():
        raise BertVisionError("logits are NaN, or all of a row infinite; finite ones are expected.")


def _minimise(loss: Callable[[float], float], ids: Sequence[str]) -> Temperature:
    """The temperature of the lowest loss: a grid search in logarithms, then golden sections around its best point."""
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
