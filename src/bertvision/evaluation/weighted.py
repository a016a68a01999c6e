"""The metrics of labels, tags and scores for many weightings of the examples at once, for the bootstrap."""

from collections.abc import Mapping, Sequence

import numpy as np

from bertvision.errors import UnknownNameError
from bertvision.evaluation.metrics import LABEL_METRICS, SCORE_METRICS, TAG_METRICS
from bertvision.tasks.examples import FloatArray, IntArray

SMALLEST = 1e-12
"""A variance that is a smaller share of the mean square is a rounding error: the values are constant."""


def weighted_label_metrics(
    golds: IntArray, predictions: IntArray, counts: FloatArray, *, classes: int, metrics: Sequence[str]
) -> dict[str, FloatArray]:
    """`label_metrics`, (draws,) each, if row r occurs `counts[draw, r]` times, (draws, rows)."""
    table = _tables(golds * classes + predictions, counts, classes)  # (draws, gold classes, predicted classes)
    right, gold, predicted = np.einsum("dcc->dc", table), table.sum(axis=2), table.sum(axis=1)
    total = gold.sum(axis=1)
    f1 = _divide(2 * right, gold + predicted)
    values: dict[str, FloatArray] = {}
    for metric in metrics:
        match metric:
            case "accuracy":
                values[metric] = right.sum(axis=1) / total
            case "f1":
                values[metric] = f1[:, 1] if classes == 2 else f1.mean(axis=1)
            case "matthews":
                chance = (gold * predicted).sum(axis=1)
                spread = (total**2 - (gold**2).sum(axis=1)) * (total**2 - (predicted**2).sum(axis=1))
                values[metric] = _divide(right.sum(axis=1) * total - chance, np.sqrt(spread))
            case _:
                raise UnknownNameError("metric", metric, LABEL_METRICS)
    return values


def weighted_tag_metrics(
    golds: IntArray, predictions: IntArray, counts: FloatArray, *, metrics: Sequence[str]
) -> dict[str, FloatArray]:
    """`tag_metrics`, (draws,) each, if row r occurs `counts[draw, r]` times, (draws, rows)."""
    above = 2 * counts @ (golds * predictions)  # (draws, labels)
    below = counts @ (golds + predictions)
    values: dict[str, FloatArray] = {}
    for metric in metrics:
        match metric:
            case "micro_f1":
                values[metric] = _divide(above.sum(axis=1), below.sum(axis=1))
            case "macro_f1":
                values[metric] = _divide(above, below).mean(axis=1)
            case "subset_accuracy":
                values[metric] = counts @ (golds == predictions).all(axis=1) / counts.sum(axis=1)
            case _:
                raise UnknownNameError("metric", metric, TAG_METRICS)
    return values


def weighted_score_metrics(
    golds: FloatArray, predictions: FloatArray, counts: FloatArray, *, metrics: Sequence[str]
) -> Mapping[str, FloatArray]:
    """`score_metrics`, (draws,) each, if row r occurs `counts[draw, r]` times, (draws, rows)."""
    values: dict[str, FloatArray] = {}
    for metric in metrics:
        match metric:
            case "pearson":
                values[metric] = _correlation(golds - golds.mean(), predictions - predictions.mean(), counts)
            case "spearman":
                values[metric] = _correlation(_ranks(golds, counts), _ranks(predictions, counts), counts)
            case "mse":
                values[metric] = counts @ (golds - predictions) ** 2 / counts.sum(axis=1)
            case _:
                raise UnknownNameError("metric", metric, SCORE_METRICS)
    return values


def _tables(cells: IntArray, counts: FloatArray, classes: int) -> FloatArray:
    """Confusion matrices, (draws, gold classes, predicted classes), from `gold · classes + prediction` of every row."""
    order = np.argsort(cells, kind="stable")
    occurring, begins = np.unique(cells[order], return_index=True)
    tables = np.zeros((len(counts), classes * classes))
    tables[:, occurring] = np.add.reduceat(counts[:, order], begins, axis=1)
    return tables.reshape(-1, classes, classes)


def _ranks(values: FloatArray, counts: FloatArray) -> FloatArray:
    """Rank of every row in every draw, (draws, rows), shifted by a constant; equal values have their mean rank."""
    _, group = np.unique(values, return_inverse=True)
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    size = np.add.reduceat(counts[:, order], begins, axis=1)  # (draws, different values)
    middle = np.cumsum(size, axis=1) - (size - 1.0) / 2.0
    ranks: FloatArray = middle[:, group] - counts.sum(axis=1, keepdims=True) / 2.0  # centred: less rounding
    return ranks


def _correlation(first: FloatArray, second: FloatArray, counts: FloatArray) -> FloatArray:
    """Pearson's correlation, (draws,), NaN with a constant; first and second: (rows,) or (draws, rows)."""
    total = counts.sum(axis=1)

    def mean(values: FloatArray) -> FloatArray:
        means: FloatArray = np.einsum("dr,dr->d", counts, np.broadcast_to(values, counts.shape)) / total
        return means

    squares = mean(first**2), mean(second**2)
    spreads = squares[0] - mean(first) ** 2, squares[1] - mean(second) ** 2
    constant = (spreads[0] <= SMALLEST * squares[0]) | (spreads[1] <= SMALLEST * squares[1])
    shared = mean(first * second) - mean(first) * mean(second)
    product = np.where(constant, np.nan, spreads[0] * spreads[1])
    return np.where(constant, np.nan, shared / np.sqrt(product))


def _divide(above: FloatArray, below: FloatArray) -> FloatArray:
    """Quotients; 0 where the divisor is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
