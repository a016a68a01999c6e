"""Ensembles, worked out by hand."""

import math

import numpy as np
import pytest

from bertvision.evaluation.ensemble import (
    MOST_STEPS,
    choose_greedily,
    class_log_probabilities,
    largest,
    token_log_probabilities,
    weighted_mean,
)
from bertvision.tasks.examples import FloatArray
from close import FLOAT32, FLOAT64


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


def test_probabilities_are_over_the_tokens_of_a_window() -> None:
    scores = array(math.log(1), math.log(3), math.log(2), math.log(2), math.log(4))
    found = np.exp(token_log_probabilities(scores, np.array([0, 2, 5])))
    assert found.tolist() == pytest.approx([1 / 4, 3 / 4, 2 / 8, 2 / 8, 4 / 8], rel=FLOAT32)


def test_large_scores_neither_overflow_nor_vanish() -> None:
    found = token_log_probabilities(array(1000, 1000, -1000), np.array([0, 3]))
    assert found.tolist() == pytest.approx([-math.log(2), -math.log(2), -2000 - math.log(2)], rel=FLOAT32)


def test_classes() -> None:
    rows = np.log(np.array([[1, 1, 2], [6, 1, 1]], dtype=np.float32))
    assert np.exp(class_log_probabilities(rows)) == pytest.approx(
        np.array([[1 / 4, 1 / 4, 1 / 2], [3 / 4, 1 / 8, 1 / 8]]), rel=FLOAT32
    )


def test_the_maximum_takes_whoever_is_surest() -> None:
    first, second = np.log(array(0.9, 0.1)), np.log(array(0.4, 0.6))
    assert np.exp(largest([first, second])).tolist() == pytest.approx([0.9, 0.6], rel=FLOAT32)


def test_the_mean_of_logarithms_is_the_logarithm_of_the_geometric_mean() -> None:
    first, second = np.log(array(0.9, 0.1)), np.log(array(0.4, 0.6))
    found = np.exp(weighted_mean([first, second], np.array([0.5, 0.5])))
    assert found.tolist() == pytest.approx([math.sqrt(0.36), math.sqrt(0.06)], rel=FLOAT32)
    found = weighted_mean([array(1, 2), array(5, 6), array(np.nan, np.nan)], np.array([0.75, 0.25, 0.0]))
    assert found.tolist() == [2, 3]


def test_a_greedy_choice_takes_members_again_and_ends_when_nothing_is_gained() -> None:
    # best is 2/3 of the first and 1/3 of the third; the second never helps
    aim = np.array([2 / 3, 0, 1 / 3])

    def score(weights: FloatArray) -> float:
        return -float(np.abs(weights - aim).sum())

    weights, history = choose_greedily(3, score)
    assert weights.tolist() == pytest.approx(aim.tolist(), rel=FLOAT64)
    # alone: -(1/3 + 1/3); a half each: -(1/6 + 1/6); two and one: 0
    assert history == pytest.approx([-2 / 3, -1 / 3, 0], abs=FLOAT64)


def test_the_first_of_equals_is_taken_and_one_that_has_no_score_is_not() -> None:
    weights, history = choose_greedily(3, lambda weights: math.nan if weights[0] else 1.0)
    assert (weights.tolist(), history) == ([0, 1, 0], [1])


def test_a_choice_comes_to_an_end() -> None:
    steps = iter(range(10_000))
    _, history = choose_greedily(2, lambda _: float(next(steps)))
    assert len(history) == MOST_STEPS
