import json
from dataclasses import asdict

import numpy as np
import pytest

from bertvision.analysis.confusion import Confusion, LabelCounts, confusion, tag_counts
from bertvision.errors import BertVisionError

LABELS = ("bad", "fair", "good")


def test_rows_are_true_labels_and_columns_predicted_ones() -> None:
    found = confusion(LABELS, np.array([0, 0, 0, 1, 1]), np.array([0, 1, 1, 1, 0]))
    assert found == Confusion(
        ((1, 2, 0), (1, 1, 0), (0, 0, 0)),
        (
            LabelCounts("bad", 3, 2, 1, 1 / 3, 1 / 2),
            LabelCounts("fair", 2, 3, 1, 1 / 2, 1 / 3),
            LabelCounts("good", 0, 0, 0, None, None),
        ),
    )
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["counts"] == [[1, 2, 0], [1, 1, 0], [0, 0, 0]]


def test_classes_without_a_label_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"predictions hold class 3; 0 to 2 are expected\."):
        confusion(LABELS, np.array([0, 1]), np.array([0, 3]))
    with pytest.raises(BertVisionError, match=r"golds hold class -1; 0 to 2 are expected\."):
        confusion(LABELS, np.array([0, -1]), np.array([0, 1]))


def test_more_predictions_than_golds_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"3 predictions for 2 examples\. Expected one for each\."):
        confusion(LABELS, np.array([0, 1]), np.array([0, 1, 1]))


def test_tags_are_counted_label_by_label() -> None:
    golds = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 0]])
    given = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0]])
    first, second, third = tag_counts(["a", "b", "c"], golds, given)
    assert (first.gold, first.predicted, first.right, first.recall, first.precision) == (2, 2, 2, 1.0, 1.0)
    assert (second.gold, second.predicted, second.right, second.recall, second.precision) == (1, 2, 0, 0.0, 0.0)
    assert (third.gold, third.predicted, third.right, third.recall, third.precision) == (1, 0, 0, 0.0, None)
    with pytest.raises(BertVisionError, match="2 predictions for 3 examples"):
        tag_counts(["a", "b", "c"], golds, given[:2])
