"""Confusion of labels: how often each gold label got each predicted label, with precision and recall."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.analysis.checks import check_classes, check_rows, share
from bertvision.evaluation.metrics import confusion_matrix
from bertvision.tasks.examples import IntArray


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """How often one label is gold, predicted, or both.

    Attributes:
        label: its name.
        gold: number of examples that have it.
        predicted: number of examples for which it was predicted.
        right: number of examples of both.
        recall: `right` / `gold`, 0 to 1; None if `gold` is 0.
        precision: `right` / `predicted`, 0 to 1; None if `predicted` is 0.
    """

    label: str
    gold: int
    predicted: int
    right: int
    recall: float | None
    precision: float | None


@dataclass(frozen=True, slots=True)
class Confusion:
    """The confusion matrix of labels.

    Attributes:
        counts: (gold labels, predicted labels).
        labels: (labels,) counts of each, which are the sums of rows and columns and the diagonal.
    """

    counts: tuple[tuple[int, ...], ...]
    labels: tuple[LabelCounts, ...]


def confusion(labels: Sequence[str], golds: IntArray, predictions: IntArray) -> Confusion:
    """Count gold and predicted labels.

    Args:
        labels: names of the classes, in order.
        golds: (rows,) class numbers.
        predictions: (rows,) class numbers.

    Raises:
        BertVisionError: there are more or fewer predictions than golds, or a class number without a label.
    """
    check_rows(len(golds), len(predictions), "predictions")
    for what, numbers in (("golds", golds), ("predictions", predictions)):
        check_classes(numbers, len(labels), what)
    counts = confusion_matrix(golds, predictions, classes=len(labels))
    rows = _rows(labels, counts.sum(axis=1), counts.sum(axis=0), np.diag(counts))
    return Confusion(tuple(tuple(row) for row in counts.tolist()), rows)


def tag_counts(labels: Sequence[str], golds: IntArray, predictions: IntArray) -> tuple[LabelCounts, ...]:
    """Count gold and predicted tags, of which a text may have any number.

    Args:
        labels: names of the tags, in order.
        golds: (rows, labels) 1 where a text has the tag, else 0.
        predictions: (rows, labels) the same.

    Raises:
        BertVisionError: there are more or fewer predictions than golds.
    """
    check_rows(len(golds), len(predictions), "predictions")
    return _rows(labels, golds.sum(axis=0), predictions.sum(axis=0), (golds * predictions).sum(axis=0))


def _rows(labels: Sequence[str], golds: IntArray, predicted: IntArray, right: IntArray) -> tuple[LabelCounts, ...]:
    counts = zip(labels, golds.tolist(), predicted.tolist(), right.tolist(), strict=True)
    return tuple(
        LabelCounts(label, gold, given, both, share(both, gold), share(both, given))
        for label, gold, given, both in counts
    )
