"""The metrics of tags against those of scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from bertvision.evaluation.metrics import TAG_METRICS, tag_metrics
from close import FLOAT64


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 20),
    labels=st.integers(2, 6),  # scikit-learn takes one column for two classes
    share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_tags_are_scored_as_scikit_learn_does(rows: int, labels: int, share: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    golds, predictions = (random.random((2, rows, labels)) < share).astype(np.int64)
    assert tag_metrics(golds, predictions, metrics=TAG_METRICS) == pytest.approx(
        {
            "micro_f1": f1_score(golds, predictions, average="micro", zero_division=0),
            "macro_f1": f1_score(golds, predictions, average="macro", zero_division=0),
            "subset_accuracy": accuracy_score(golds, predictions),
        },
        rel=FLOAT64,
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=20))
def test_one_label_has_the_f1_of_class_1(pairs: list[tuple[int, int]]) -> None:
    golds, predictions = np.array(pairs, dtype=np.int64).T
    expected = f1_score(golds, predictions, labels=[0, 1], pos_label=1, zero_division=0)
    values = tag_metrics(golds[:, None], predictions[:, None], metrics=TAG_METRICS)
    assert values["micro_f1"] == values["macro_f1"] == pytest.approx(expected, rel=FLOAT64)
