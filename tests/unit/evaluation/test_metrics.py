import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.metrics import confusion_matrix as sklearn_confusion_matrix

from bertvision.errors import BertVisionError
from bertvision.evaluation.metrics import TAG_METRICS, confusion_matrix, label_metrics, score_metrics, tag_metrics
from bertvision.tasks.examples import FloatArray, IntArray
from close import FLOAT64


def labels(metric: str, golds: list[int], predictions: list[int], classes: int = 2) -> float:
    return label_metrics(np.array(golds), np.array(predictions), classes=classes, metrics=[metric])[metric]


def numbers(metric: str, golds: list[float], predictions: list[float]) -> float:
    return score_metrics(np.array(golds), np.array(predictions), metrics=[metric])[metric]


def rows(pairs: list[tuple[int, int]]) -> tuple[IntArray, IntArray]:
    golds, predictions = np.array(pairs, dtype=np.int64).T
    return golds, predictions


@pytest.mark.parametrize(("metric", "value"), [("accuracy", 4 / 6), ("f1", 4 / 6), ("matthews", 1 / 3)])
def test_two_classes_by_hand(metric: str, value: float) -> None:
    # 2 true positives, 1 false negative, 1 false positive, 2 true negatives
    assert labels(metric, [1, 1, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]) == pytest.approx(value, rel=FLOAT64)


def test_f1_of_two_classes_is_that_of_class_1_alone() -> None:
    assert labels("f1", [1, 0, 0, 0, 0], [1, 1, 0, 0, 0]) == pytest.approx(2 / 3, rel=FLOAT64)
    assert labels("f1", [0, 0], [0, 0]) == 0


@pytest.mark.parametrize(("classes", "value"), [(3, 59 / 90), (4, 59 / 120)])
def test_f1_of_more_classes_is_the_mean_over_all_of_them(classes: int, value: float) -> None:
    # by class: 1/2, 4/5, 2/3; a class that nobody names counts 0
    assert labels("f1", [0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 0], classes) == pytest.approx(value, rel=FLOAT64)


@pytest.mark.parametrize(
    ("golds", "predictions", "value"),
    [([0, 1, 1], [0, 1, 1], 1), ([0, 1], [1, 0], -1), ([0, 1, 1], [1, 1, 1], 0), ([1, 1], [1, 1], 0)],
)
def test_matthews_goes_from_minus_1_to_1_and_is_0_for_a_constant(
    golds: list[int], predictions: list[int], value: float
) -> None:
    assert labels("matthews", golds, predictions) == pytest.approx(value, rel=FLOAT64)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=30))
def test_two_classes_equal_the_textbook_formulas(pairs: list[tuple[int, int]]) -> None:
    right = {kind: sum(pair == kind for pair in pairs) for kind in ((0, 0), (0, 1), (1, 0), (1, 1))}
    tn, fp, fn, tp = right.values()
    values = label_metrics(*rows(pairs), classes=2, metrics=["accuracy", "f1", "matthews"])
    root = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert values == pytest.approx(
        {
            "accuracy": (tp + tn) / len(pairs),
            "f1": 2 * tp / (2 * tp + fp + fn) if tp else 0,
            "matthews": (tp * tn - fp * fn) / root if root else 0,
        },
        rel=FLOAT64,
        abs=FLOAT64,
    )


@pytest.mark.parametrize(
    ("metric", "value"),
    # by label: 1 of 1 + 2, 1 of 1 + 1, nobody names the third, none of 1 + 0
    [("micro_f1", 4 / 6), ("macro_f1", (2 / 3 + 1 + 0 + 0) / 4), ("subset_accuracy", 1 / 3)],
)
def test_tags_by_hand(metric: str, value: float) -> None:
    golds = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
    predictions = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]])
    assert tag_metrics(golds, predictions, metrics=[metric])[metric] == pytest.approx(value, rel=FLOAT64)


def test_tags_that_nobody_has_are_all_right_and_have_no_f1() -> None:
    nothing = np.zeros((2, 3), dtype=np.int64)
    expected = {"micro_f1": 0.0, "macro_f1": 0.0, "subset_accuracy": 1.0}
    assert tag_metrics(nothing, nothing, metrics=TAG_METRICS) == expected


@pytest.mark.parametrize(
    ("metric", "golds", "predictions", "value"),
    [
        ("pearson", [1, 2, 3], [1, 3, 2], 1 / 2),
        ("pearson", [1, 2, 3], [-1, -2, -3], -1),
        ("pearson", [1, 2], [1, 5], 1),
        ("spearman", [1, 2], [5, 1], -1),
        ("spearman", [1, 2, 3, 4], [1, 10, 100, 50], 4 / 5),
        ("spearman", [1, 2, 2, 3], [1, 2, 3, 4], math.sqrt(0.9)),  # ties share the mean of their ranks
        ("mse", [1, 2], [2, 4], 5 / 2),
        ("mse", [3], [1], 4),
    ],
)
def test_numbers_by_hand(metric: str, golds: list[float], predictions: list[float], value: float) -> None:
    assert numbers(metric, golds, predictions) == pytest.approx(value, rel=FLOAT64)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=30))
def test_correlations_equal_the_covariance_of_values_and_of_ranks(pairs: list[tuple[int, int]]) -> None:
    golds, predictions = (column.astype(np.float64) for column in rows(pairs))

    def correlation(first: FloatArray, second: FloatArray) -> float:
        first, second = first - first.mean(), second - second.mean()
        return float((first * second).sum() / math.sqrt((first**2).sum() * (second**2).sum()))

    values = score_metrics(golds, predictions, metrics=["pearson", "spearman"])
    if len(set(golds)) == 1 or len(set(predictions)) == 1:
        assert all(math.isnan(value) for value in values.values())
    else:
        ranks = correlation(rankdata(golds), rankdata(predictions))
        expected = {"pearson": correlation(golds, predictions), "spearman": ranks}
        assert values == pytest.approx(expected, rel=FLOAT64, abs=FLOAT64)


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
@pytest.mark.parametrize(("golds", "predictions"), [([1, 2, 3], [2, 2, 2]), ([2, 2, 2], [1, 2, 3]), ([1], [1])])
def test_a_correlation_with_a_constant_is_not_a_number(
    metric: str, golds: list[float], predictions: list[float]
) -> None:
    assert math.isnan(numbers(metric, golds, predictions))


def test_nearly_constant_predictions_raise_no_warning() -> None:
    assert -1 <= numbers("pearson", [1, 2, 3], [1, 1, 1 + 1e-15]) <= 1


def test_values_come_in_the_order_asked_for() -> None:
    golds = np.array([0, 1])
    assert list(label_metrics(golds, golds, classes=2, metrics=["f1", "accuracy"])) == ["f1", "accuracy"]


def test_unknown_metrics_are_answered_with_the_known_ones() -> None:
    with pytest.raises(BertVisionError, match=r"metric 'acuracy'\. Did you mean 'accuracy'\? Known: accuracy, f1"):
        labels("acuracy", [0], [0])
    with pytest.raises(BertVisionError, match=r"unknown metric 'f1'\..* Known: macro_f1, micro_f1, subset_accuracy"):
        tag_metrics(np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1), dtype=np.int64), metrics=["f1"])
    with pytest.raises(BertVisionError, match=r"unknown metric 'accuracy'\..* Known: mse, pearson, spearman"):
        numbers("accuracy", [0], [0])


def test_the_confusion_matrix_has_golds_in_rows() -> None:
    matrix = confusion_matrix(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 0]), classes=3)
    assert matrix.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_the_confusion_matrix_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    golds, predictions = rows(pairs)
    expected = sklearn_confusion_matrix(golds, predictions, labels=range(4))
    np.testing.assert_array_equal(confusion_matrix(golds, predictions, classes=4), expected)
