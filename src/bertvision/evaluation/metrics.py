"""Metrics of labels, tags and scores, as scikit-learn and scipy define them."""

import math
import warnings
from collections.abc import Sequence

import numpy as np

from bertvision.errors import UnknownNameError
from bertvision.tasks.examples import FloatArray, IntArray

LABEL_METRICS = ("accuracy", "f1", "matthews")
TAG_METRICS = ("micro_f1", "macro_f1", "subset_accuracy")
SCORE_METRICS = ("pearson", "spearman", "mse")


def label_metrics(golds: IntArray, predictions: IntArray, *, classes: int, metrics: Sequence[str]) -> dict[str, float]:
    """Metrics of labels.

    Args:
        golds: (rows,) class numbers.
        predictions: (rows,) class numbers.
        classes: number of classes of the task.
        metrics: any of `LABEL_METRICS`; `f1` is that of class 1 for two classes, macro F1 for more.

    Raises:
        UnknownNameError: a metric is none of these.
    """
    from sklearn.metrics import f1_score, matthews_corrcoef  # noqa: PLC0415 - takes seconds to import

    values: dict[str, float] = {}
    for metric in metrics:
        match metric:
            case "accuracy":
                values[metric] = float((golds == predictions).mean())
            case "f1" if classes == 2:
                values[metric] = float(f1_score(golds, predictions, pos_label=1, zero_division=0))
            case "f1":
                labels = np.arange(classes)
                values[metric] = float(f1_score(golds, predictions, labels=labels, average="macro", zero_division=0))
            case "matthews":
                with warnings.catch_warnings():  # if all rows are of one class, the value is 0
                    warnings.filterwarnings("ignore", message="A single label was found")
                    values[metric] = float(matthews_corrcoef(golds, predictions))
            case _:
                raise UnknownNameError("metric", metric, LABEL_METRICS)
    return values


def tag_metrics(golds: IntArray, predictions: IntArray, *, metrics: Sequence[str]) -> dict[str, float]:
    """Metrics of tags (multi-label classification).

    Args:
        golds: (rows, labels) 1 where a text has the label, else 0.
        predictions: (rows, labels) the same.
        metrics: any of `TAG_METRICS`: F1 over all labels of all texts, the mean of the labels' F1, and the share of
            texts whose labels are all right; the F1 of a label that is neither gold nor predicted is 0.

    Raises:
        UnknownNameError: a metric is none of these.
    """
    # F1 is 2 · true positives / (golds + predictions)
    above = 2 * (golds * predictions).sum(axis=0)  # (labels,)
    below = golds.sum(axis=0) + predictions.sum(axis=0)
    values: dict[str, float] = {}
    for metric in metrics:
        match metric:
            case "micro_f1":
                values[metric] = float(above.sum() / max(int(below.sum()), 1))
            case "macro_f1":
                values[metric] = float((above / np.maximum(below, 1)).mean())
            case "subset_accuracy":
                values[metric] = float((golds == predictions).all(axis=1).mean())
            case _:
                raise UnknownNameError("metric", metric, TAG_METRICS)
    return values


def score_metrics(golds: FloatArray, predictions: FloatArray, *, metrics: Sequence[str]) -> dict[str, float]:
    """Metrics of scores; a correlation with a constant is not defined and gives NaN.

    Args:
        golds: (rows,).
        predictions: (rows,).
        metrics: any of `SCORE_METRICS`.

    Raises:
        UnknownNameError: a metric is none of these.
    """
    from scipy.stats import ConstantInputWarning, NearConstantInputWarning, pearsonr, spearmanr  # noqa: PLC0415

    values: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        warnings.simplefilter("ignore", NearConstantInputWarning)
        for metric in metrics:
            match metric:
                case "pearson":
                    values[metric] = float(pearsonr(golds, predictions).statistic) if len(golds) > 1 else math.nan
                case "spearman":
                    values[metric] = float(spearmanr(golds, predictions).statistic) if len(golds) > 1 else math.nan
                case "mse":
                    values[metric] = float(np.mean((golds - predictions) ** 2))
                case _:
                    raise UnknownNameError("metric", metric, SCORE_METRICS)
    return values


def confusion_matrix(golds: IntArray, predictions: IntArray, *, classes: int) -> IntArray:
    """Counts, (gold classes, predicted classes)."""
    return np.bincount(golds * classes + predictions, minlength=classes * classes).reshape(classes, classes)
