import json
from dataclasses import asdict

import numpy as np
import pytest

from bertvision.analysis.calibration import (
    LIMITS,
    Reliability,
    ReliabilityBin,
    Temperature,
    answer_logits,
    calibrate,
    confidences,
    fit_answer_temperature,
    fit_temperature,
    reliability,
)
from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import SpanPredictions
from close import FLOAT64, about
from conftest import make_questions

SEARCHED = 1e-6
"""Where a search in double precision finds a minimum: its value changes by the square of that."""

SURE = 2 * np.log(3)  # a lead of this much is a probability of 9/10, and of 3/4 at a temperature of 2
LOGITS = np.array([[SURE, 0.0], [0.0, SURE], [5 + SURE, 5.0], [SURE, 0.0]])
IDS = ["a", "b", "c", "d"]


def test_confidence_is_the_largest_probability_at_a_temperature() -> None:
    assert confidences(LOGITS).tolist() == pytest.approx([0.9] * 4, rel=FLOAT64)
    assert confidences(LOGITS, 2.0).tolist() == pytest.approx([0.75] * 4, rel=FLOAT64)
    assert confidences(np.array([[900.0, -np.inf, 0.0]])).tolist() == [1.0]


def test_the_temperature_makes_confidence_what_is_right() -> None:
    # three of four are right: a confidence of 3/4 is best
    found = fit_temperature(LOGITS, np.array([0, 1, 0, 1]), ids=IDS)
    assert found.value == pytest.approx(2.0, rel=SEARCHED)
    assert found.loss == pytest.approx(-(3 * np.log(0.75) + np.log(0.25)) / 4, rel=FLOAT64)
    assert found.plain_loss == pytest.approx(-(3 * np.log(0.9) + np.log(0.1)) / 4, rel=FLOAT64)
    assert found.fitted_on == frozenset(IDS)


def test_too_modest_a_model_is_made_surer() -> None:
    # nine of ten are right, at a confidence of 3/4: √ of the odds, so half the temperature
    logits = np.tile([np.log(3), 0.0], (10, 1))
    assert fit_temperature(logits, np.array([0] * 9 + [1]), ids=list("abcdefghij")).value == pytest.approx(
        0.5, rel=SEARCHED
    )


def test_with_more_classes_every_probability_counts() -> None:
    # the second class of three leads by ln 4 and is never right; the others are equal: sureness only hurts
    logits = np.log([[1.0, 4.0, 1.0]] * 2)
    assert fit_temperature(logits, np.array([0, 2]), ids=["a", "b"]).value == pytest.approx(LIMITS[1], rel=SEARCHED)


def test_of_answers_the_most_likely_counts_alone() -> None:
    logits = np.column_stack([LOGITS, np.full(4, -np.inf)])  # fewer answers than there might be
    found = fit_answer_temperature(logits, np.array([True, True, False, True]), ids=IDS)
    assert found.value == pytest.approx(2.0, rel=SEARCHED)
    assert found.loss == pytest.approx(-(3 * np.log(0.75) + np.log(0.25)) / 4, rel=FLOAT64)


def test_where_all_is_right_the_temperature_stays_within_its_limits() -> None:
    assert LIMITS[0] <= fit_temperature(LOGITS, np.array([0, 1, 0, 0]), ids=IDS).value <= 0.1
    wrong = fit_answer_temperature(LOGITS, np.zeros(4, dtype=np.bool_), ids=IDS)
    assert wrong.value == pytest.approx(LIMITS[1], rel=SEARCHED)


def test_no_answer_is_most_likely_where_the_threshold_says_so() -> None:
    predictions = SpanPredictions(
        null=np.array([2.0, 2.0]),
        scores=np.array([[1.0, 0.0], [1.8, 0.0]]),
        starts=np.zeros((2, 2), dtype=np.int64),
        ends=np.full((2, 2), 3, dtype=np.int64),
    )
    examples = make_questions(("who", "ada", "ada"), ("whose", "ada", "ada"))
    logits = answer_logits(predictions, threshold=0.5)
    assert logits.tolist() == [[1.5, 1.0, 0.0], [1.5, 1.8, 0.0]]
    silent = [text == "" for text in predictions.texts(examples, 0.5).values()]
    assert (logits.argmax(axis=1) == 0).tolist() == silent == [True, False]


CONFIDENCE = np.array([0.95, 0.45, 0.55, 0.85])
RIGHT = np.array([True, False, False, True])


def test_the_error_weighs_every_bin_by_its_examples() -> None:
    # (0, 1/2]: 0 right at 0.45; (1/2, 1]: 2 of 3 right at 2.35 / 3: (0.45 + |2 - 2.35|) / 4
    found = reliability(CONFIDENCE, RIGHT, bins=2)
    assert found == Reliability(
        4,
        about(0.7),
        0.5,
        about(0.2),
        (
            ReliabilityBin(0.0, 0.5, 1, 0.45, 0.0),
            ReliabilityBin(0.5, 1.0, 3, about(2.35 / 3), about(2 / 3)),
        ),
    )


def test_an_edge_belongs_to_the_bin_below_it() -> None:
    found = reliability(np.array([0.0, 0.5, 0.75, 1.0]), np.ones(4, dtype=np.bool_), bins=4)
    assert [one.count for one in found.bins] == [1, 1, 1, 1]
    assert [one.count for one in reliability(np.array([0.25]), np.array([True]), bins=4).bins] == [1, 0, 0, 0]


def test_a_temperature_brings_the_error_down_on_other_examples_and_it_turns_into_json() -> None:
    temperature = Temperature(2.0, 0.0, 0.0, frozenset({"x", "y"}))
    found = calibrate(temperature, LOGITS, right=np.array([True, True, False, True]), ids=IDS, bins=5)
    assert found.before.error == pytest.approx(0.15, rel=FLOAT64)
    assert found.after.error == pytest.approx(0.0, abs=FLOAT64)
    content = json.loads(json.dumps(asdict(found), allow_nan=False))
    assert (content["temperature"], content["fitted_on"]) == (2.0, 2)
    assert content["after"]["bins"][0] == {"low": 0.0, "high": 0.2, "count": 0, "confidence": None, "accuracy": None}


def test_a_temperature_is_not_judged_by_what_it_was_fitted_on() -> None:
    temperature = fit_temperature(LOGITS, np.array([0, 1, 0, 1]), ids=IDS)
    message = r"the temperature was fitted on 1 of these 4 examples, first 'c'\. Fit it on held-out training examples"
    with pytest.raises(BertVisionError, match=message):
        calibrate(temperature, LOGITS, right=np.ones(4, dtype=np.bool_), ids=["w", "c", "y", "z"])


def test_columns_that_do_not_fit_are_refused() -> None:
    golds = np.array([0, 1, 0, 1])
    with pytest.raises(BertVisionError, match=r"3 ids for 4 examples\."):
        fit_temperature(LOGITS, golds, ids=IDS[:3])
    with pytest.raises(BertVisionError, match=r"3 golds or marks for 4 examples\."):
        fit_answer_temperature(LOGITS, np.array([True] * 3), ids=IDS)
    with pytest.raises(BertVisionError, match=r"golds hold class 2; 0 to 1 are expected\."):
        fit_temperature(LOGITS, golds + 1, ids=IDS)
    with pytest.raises(BertVisionError, match=r"shape \(0, 2\); \(rows, classes\) with a row is expected"):
        fit_temperature(LOGITS[:0], golds[:0], ids=[])
    for value in (np.nan, -np.inf, np.inf):
        with pytest.raises(BertVisionError, match="NaN, or all of a row infinite"):
            fit_temperature(np.full((1, 2), value), golds[:1], ids=["a"])


def test_confidences_that_cannot_be_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"confidences are 0\.45 to 1\.5; 0 to 1 is expected"):
        reliability(np.array([1.5, 0.45]), np.array([True, True]))
    with pytest.raises(BertVisionError, match="0 confidences in 15 bins"):
        reliability(np.array([]), np.array([], dtype=np.bool_))
    with pytest.raises(BertVisionError, match="2 right or wrong marks for 4 examples"):
        reliability(CONFIDENCE, RIGHT[:2])
