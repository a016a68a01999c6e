"""Which labels are taken for which, and how often each is given: predicted against true."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.analysis.checks import check_classes, check_rows, share
from bertvision.evaluation.metrics import confusion_matrix
from bertvision.tasks.examples import IntArray


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """One label: how often it is true, and how often it was given.

    Attributes:
        label: its word.
        gold: examples that have it.
        predicted: examples that were given it.
        right: examples where both hold.
        recall: the part of `gold` that was found, 0 to 1; None without any.
        precision: the part of `predicted` that is right, 0 to 1; None without any.
    """

    label: str
    gold: int
    predicted: int
    right: int
    recall: float | None
    precision: float | None


@dataclass(frozen=True, slots=True)
class Confusion:
    """Labels predicted against true.

    Attributes:
        counts: (gold labels, predicted labels).
        labels: (labels,) sums of rows and columns: the two histograms.
    """

    counts: tuple[tuple[int, ...], ...]
    labels: tuple[LabelCounts, ...]


def confusion(labels: Sequence[str], golds: IntArray, predictions: IntArray) -> Confusion:
    """Count which labels were given for which.

    Args:
        labels: words in class order.
        golds: (rows,) class numbers.
        predictions: (rows,).

    Raises:
        BertVisionError: there are more or fewer predictions than golds, or a class that has no label.
    """
    check_rows(len(golds), len(predictions), "predictions")
    for what, numbers in (("golds", golds), ("predictions", predictions)):
        check_classes(numbers, len(labels), what)
    counts = confusion_matrix(golds, predictions, classes=len(labels))
    rows = _rows(labels, counts.sum(axis=1), counts.sum(axis=0), np.diag(counts))
    return Confusion(tuple(tuple(row) for row in counts.tolist()), rows)


def tag_counts(labels: Sequence[str], golds: IntArray, predictions: IntArray) -> tuple[LabelCounts, ...]:
    """How often each label of texts with any number of them is true, and was given.

    Args:
        labels: words in class order.
        golds: (rows, labels) 1 where a text has the label.
        predictions: (rows, labels).

    Raises:
        BertVisionError: there are more or fewer predictions than golds.
    """
    check_rows(len(golds), len(predictions), "predictions")
    return _rows(labels, golds.sum(axis=0), predictions.sum(axis=0), (golds * predictions).sum(axis=0))


def _rows(labels: Sequence[str], golds: IntArray, given: IntArray, right: IntArray) -> tuple[LabelCounts, ...]:
    counts = zip(labels, golds.tolist(), given.tolist(), right.tolist(), strict=True)
    return tuple(
        LabelCounts(label, true, named, both, share(both, true), share(both, named))
        for label, true, named, both in counts
    )
