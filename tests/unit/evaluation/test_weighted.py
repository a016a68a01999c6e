"""Metrics of weighted rows are those of rows that stand there as often, by scikit-learn and scipy."""

import numpy as np
import pytest

from bertvision.errors import UnknownNameError
from bertvision.evaluation.metrics import (
    LABEL_METRICS,
    SCORE_METRICS,
    TAG_METRICS,
    label_metrics,
    score_metrics,
    tag_metrics,
)
from bertvision.evaluation.weighted import weighted_label_metrics, weighted_score_metrics, weighted_tag_metrics
from close import FLOAT64, MOMENTS

COUNTS = np.array([[2.0, 1, 1, 1, 0, 3], [1, 1, 1, 1, 1, 1], [0, 0, 4, 0, 0, 2]])


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_labels(classes: int) -> None:
    random = np.random.default_rng(classes)
    golds, given = (random.integers(classes, size=6) for _ in range(2))
    found = weighted_label_metrics(golds, given, COUNTS, classes=classes, metrics=LABEL_METRICS)
    for draw, counts in enumerate(COUNTS.astype(int)):
        rows = np.repeat(np.arange(6), counts)
        expected = label_metrics(golds[rows], given[rows], classes=classes, metrics=LABEL_METRICS)
        assert {name: values[draw] for name, values in found.items()} == pytest.approx(expected, rel=FLOAT64)


@pytest.mark.parametrize("labels", [1, 3])
def test_tags(labels: int) -> None:
    random = np.random.default_rng(labels)
    golds, given = (random.integers(2, size=(6, labels)) for _ in range(2))
    given[:, -1] = golds[:, -1] = 0  # a label that nobody names
    found = weighted_tag_metrics(golds, given, COUNTS, metrics=TAG_METRICS)
    for draw, counts in enumerate(COUNTS.astype(int)):
        rows = np.repeat(np.arange(6), counts)
        expected = tag_metrics(golds[rows], given[rows], metrics=TAG_METRICS)
        assert {name: values[draw] for name, values in found.items()} == pytest.approx(expected, rel=FLOAT64)


@pytest.mark.parametrize("seed", range(4))
def test_scores(seed: int) -> None:
    random = np.random.default_rng(seed)
    golds = random.integers(4, size=6).astype(np.float64)  # some are equal, so that ranks tie
    given = random.normal(size=6) + 100
    found = weighted_score_metrics(golds, given, COUNTS, metrics=SCORE_METRICS)
    for draw, counts in enumerate(COUNTS.astype(int)):
        rows = np.repeat(np.arange(6), counts)
        expected = score_metrics(golds[rows], given[rows], metrics=SCORE_METRICS)
        mine = {name: float(values[draw]) for name, values in found.items()}
        assert mine == pytest.approx(expected, rel=MOMENTS, nan_ok=True)


def test_a_constant_has_no_correlation() -> None:
    found = weighted_score_metrics(np.full(6, 0.1), np.arange(6.0), COUNTS, metrics=("pearson", "spearman"))
    assert np.isnan([*found["pearson"], *found["spearman"]]).all()


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown metric 'f2'"):
        weighted_label_metrics(np.zeros(6, int), np.zeros(6, int), COUNTS, classes=2, metrics=["f2"])
    with pytest.raises(UnknownNameError, match="unknown metric 'f3'"):
        weighted_tag_metrics(np.zeros((6, 2), int), np.zeros((6, 2), int), COUNTS, metrics=["f3"])
    with pytest.raises(UnknownNameError, match="unknown metric 'person'"):
        weighted_score_metrics(np.zeros(6), np.zeros(6), COUNTS, metrics=["person"])
