import json
from dataclasses import asdict

import numpy as np
import pytest

from bertvision.analysis.histograms import ScoreHistogram, scatter, score_histogram
from bertvision.errors import BertVisionError

GOLDS = np.array([0.0, 0.9, 1.0, 5.0])


def test_scores_are_counted_in_bins_of_equal_width() -> None:
    found = score_histogram(GOLDS, np.array([-0.5, 2.0, 4.9, 5.4]), limits=(0.0, 5.0), bins=5)
    # an edge belongs to the bin above it, but the last to the last
    expected = ScoreHistogram((0.0, 1.0, 2.0, 3.0, 4.0, 5.0), (2, 1, 0, 0, 1), (1, 0, 1, 0, 2), 2)
    assert found == expected
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["outside"] == 2


def test_scores_and_bins_that_cannot_be_are_refused() -> None:
    with pytest.raises(BertVisionError, match="3 predictions for 4 examples"):
        score_histogram(GOLDS, GOLDS[:3], limits=(0.0, 5.0))
    with pytest.raises(BertVisionError, match="true scores are 0 to 5; 0 to 1 are expected"):
        score_histogram(GOLDS, GOLDS, limits=(0.0, 1.0))
    with pytest.raises(BertVisionError, match="0 bins from 0 to 5"):
        score_histogram(GOLDS, GOLDS, limits=(0.0, 5.0), bins=0)
    with pytest.raises(BertVisionError, match="10 bins from 5 to 0"):
        score_histogram(GOLDS, GOLDS, limits=(5.0, 0.0))
    with pytest.raises(BertVisionError, match="a score is not finite"):
        score_histogram(GOLDS, GOLDS * np.nan, limits=(0.0, 5.0))


def test_points_are_all_examples_or_as_many_at_equal_distances() -> None:
    golds, given = np.arange(10.0), np.arange(10.0) / 2
    assert scatter(golds, given).golds == tuple(range(10))
    few = scatter(golds, given, most=4)
    assert few.golds == (0.0, 2.0, 5.0, 7.0)
    assert few.predictions == (0.0, 1.0, 2.5, 3.5)
    assert scatter(golds[:0], given[:0]).golds == ()


def test_points_need_a_prediction_for_every_gold() -> None:
    with pytest.raises(BertVisionError, match="2 predictions for 3 examples"):
        scatter(np.zeros(3), np.zeros(2))
    with pytest.raises(BertVisionError, match="0 points were asked for"):
        scatter(np.zeros(3), np.zeros(3), most=0)
