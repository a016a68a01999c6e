import json
from dataclasses import asdict

import numpy as np
import pytest

from bertvision.analysis.cumulative import cumulative_scores
from bertvision.errors import BertVisionError
from close import FLOAT64


def test_the_expected_layer_weighs_each_layer_by_what_it_adds() -> None:
    found = cumulative_scores(range(4), np.array([[50.0, 60.0, 58.0, 70.0]]))
    assert [score.mean for score in found.scores] == [50.0, 60.0, 58.0, 70.0]
    assert [gain.mean for gain in found.differences] == [10.0, -2.0, 12.0]
    # (1 · 10 - 2 · 2 + 3 · 12) / (10 - 2 + 12); reversed it would be (36 - 4 + 10) / 20 = 1.8 with wrong layers
    assert found.expected_layer == pytest.approx(42 / 20, rel=FLOAT64)


def test_the_first_depth_need_not_be_the_embedding_output() -> None:
    found = cumulative_scores([1, 2, 3], np.array([[40.0, 41.0, 44.0]]))
    assert (found.depths, found.expected_layer) == ((1, 2, 3), (2 * 1 + 3 * 3) / 4)


def test_differences_are_taken_within_a_seed() -> None:
    found = cumulative_scores([0, 1, 2], np.array([[10.0, 20.0, 30.0], [50.0, 60.0, 70.0], [0.0, 10.0, 20.0]]))
    # seeds differ by much, their gains do not
    assert [(gain.mean, gain.low, gain.high) for gain in found.differences] == [(10.0, 10.0, 10.0)] * 2
    assert found.scores[0].low is not None
    assert found.scores[0].low < 0.0
    assert found.expected_layer == 1.5


@pytest.mark.parametrize("last", [50.0, 40.0])
def test_where_depth_gains_nothing_no_layer_is_expected_and_it_turns_into_json(last: float) -> None:
    found = cumulative_scores([0, 1, 2], np.array([[50.0, 60.0, last]]))
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["expected_layer"] is None


@pytest.mark.parametrize("depths", [[0, 2, 3], [2, 1, 0], [0, 1, 1]])
def test_depths_that_are_missing_or_out_of_order_are_refused(depths: list[int]) -> None:
    with pytest.raises(BertVisionError, match=r"prefix heads have the depths .* Fit one for each layer\."):
        cumulative_scores(depths, np.array([[1.0, 2.0, 3.0]]))


def test_scores_for_more_depths_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"shape \(1, 3\) for 2 depths"):
        cumulative_scores([0, 1], np.array([[1.0, 2.0, 3.0]]))
