from collections.abc import Callable

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.evaluation.score import Scoring, score_paper, score_squad1, score_squad2, score_targets
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from close import FLOAT64
from conftest import make_tags

GOLDS = {f"q{number}": ["cat"] if number % 2 else [] for number in range(40)}
SILENT = dict.fromkeys(GOLDS, "")
PERFECT = {key: "cat" if golds else "" for key, golds in GOLDS.items()}


def on_rows(scoring: Scoring, *rows: int) -> dict[str, float]:
    """The values on some rows, with repeats."""
    counts = np.bincount(rows, minlength=scoring.rows).astype(np.float64)
    return {name: float(values[0]) for name, values in scoring.metric(counts[None]).items()}


def test_squad2_resamples_the_means_and_not_the_counts() -> None:
    scoring = score_squad2(GOLDS, SILENT, no_answer=dict.fromkeys(GOLDS, 0.0))
    parts = {f"{part}{name}" for part in ("", "HasAns_", "NoAns_") for name in ("exact", "f1")}
    assert set(on_rows(scoring, *range(40))) == parts
    assert scoring.rows == 40
    assert set(scoring.intervals(100)) == {f"{name}_{end}" for name in parts for end in ("low", "high")}


def test_squad2_is_resampled_after_the_threshold() -> None:
    no_answer = {key: 0.0 if golds else 1.0 for key, golds in GOLDS.items()}
    scoring = score_squad2(GOLDS, dict.fromkeys(GOLDS, "cat"), no_answer=no_answer, threshold=0.5)
    assert scoring.values["exact"] == on_rows(scoring, 0, 1, 1)["exact"] == 100


def test_squad1_resamples_both_of_its_values() -> None:
    scoring = score_squad1({"q1": ["cat"], "q2": ["red fox"]}, {"q1": "cat", "q2": "fox"})
    assert on_rows(scoring, 1, 1) == pytest.approx({"exact_match": 0, "f1": 200 / 3}, rel=FLOAT64)
    assert on_rows(scoring, 0) == {"exact_match": 100, "f1": 100}
    assert scoring.rows == 2


def test_intervals_hold_the_value_and_are_those_of_the_seed() -> None:
    scoring = score_squad2(GOLDS, SILENT)
    intervals = scoring.intervals(200, seed=1)
    assert intervals["exact_low"] < scoring.values["exact"] < intervals["exact_high"]
    assert (intervals["NoAns_f1_low"], intervals["NoAns_f1_high"]) == (100, 100)
    assert intervals == scoring.intervals(200, seed=1) != scoring.intervals(200, seed=2)


def test_seed_0_is_usual() -> None:
    scoring, other = score_squad2(GOLDS, PERFECT), score_squad2(GOLDS, dict.fromkeys(GOLDS, "cat"))
    assert other.intervals(100) == other.intervals(100, seed=0)
    assert scoring.compared_with(other, 100) == scoring.compared_with(other, 100, seed=0)


def test_only_no_answer_values_above_1_are_silent_unless_told() -> None:
    no_answer = {"q1": 1.0, "q2": 1.1}
    values = score_squad2({"q1": ["cat"], "q2": ["cat"]}, dict.fromkeys(no_answer, "cat"), no_answer=no_answer).values
    assert values["exact"] == 50


def test_two_models_are_compared_value_by_value() -> None:
    compared = score_squad2(GOLDS, PERFECT).compared_with(score_squad2(GOLDS, SILENT), 200)
    assert compared["exact_difference"] == compared["f1_difference"] == 50
    assert 25 < compared["exact_difference_low"] < 50 < compared["exact_difference_high"] < 75
    assert compared["exact_p"] == pytest.approx(2 / 201, rel=FLOAT64)
    assert (compared["NoAns_exact_difference"], compared["NoAns_exact_p"]) == (0, 1)


def test_the_paper_scorer_gives_the_values_of_squad2_without_normalisation(tokenizer: TextTokenizer) -> None:
    scoring = score_paper({"q1": ["cat"], "q2": []}, {"q1": "the cat", "q2": ""}, tokenizer)
    assert scoring.values == pytest.approx(
        {
            "exact": 50,
            "f1": 250 / 3,
            "total": 2,
            "HasAns_exact": 0,
            "HasAns_f1": 200 / 3,
            "HasAns_total": 1,
            "NoAns_exact": 100,
            "NoAns_f1": 100,
            "NoAns_total": 1,
            "missing": 0,
            "extra": 0,
        },
        rel=FLOAT64,
    )


@pytest.fixture
def similarity() -> Scoring:
    return score_targets(TASKS["stsb"], np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 10.0, 100.0, 50.0]))


def test_labels_are_scored_by_the_metrics_of_their_task() -> None:
    golds, predictions = np.array([1, 1, 1, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0])
    assert score_targets(TASKS["cola"], golds, predictions).values == pytest.approx({"matthews": 1 / 3}, rel=FLOAT64)
    paraphrase = score_targets(TASKS["mrpc"], golds, predictions)
    assert paraphrase.values == pytest.approx({"f1": 2 / 3, "accuracy": 2 / 3}, rel=FLOAT64)
    assert on_rows(paraphrase, 0, 0, 3) == pytest.approx({"f1": 4 / 5, "accuracy": 2 / 3}, rel=FLOAT64)


def test_scores_are_scored_by_the_metrics_of_their_task(similarity: Scoring) -> None:
    assert list(similarity.values) == ["pearson", "spearman"]
    assert similarity.values["spearman"] == pytest.approx(4 / 5, rel=FLOAT64)
    assert on_rows(similarity, 2, 3)["pearson"] == pytest.approx(-1, rel=FLOAT64)


def test_small_sets_have_intervals_though_draws_may_be_of_one_class_or_one_value(similarity: Scoring) -> None:
    labels = np.array([0, 1, 1])
    matthews = score_targets(TASKS["cola"], labels, labels).intervals(100)
    assert matthews == {"matthews_low": 0, "matthews_high": 1}
    intervals = similarity.intervals(100)
    assert -1 <= intervals["spearman_low"] < intervals["spearman_high"] <= 1


@pytest.mark.parametrize("count", [2, 4])
def test_another_number_of_predictions_than_golds_is_refused(count: int) -> None:
    with pytest.raises(BertVisionError, match=f"{count} predictions for 3 golds. Expected one for each"):
        score_targets(TASKS["cola"], np.zeros(3, dtype=np.int64), np.zeros(count, dtype=np.int64))


def test_tags_are_scored_label_by_label_on_any_rows() -> None:
    golds, predictions = np.array([[1, 0], [1, 1], [0, 0]]), np.array([[1, 0], [0, 1], [0, 0]])
    scoring = score_targets(make_tags("a", "b"), golds, predictions)
    assert scoring.values == pytest.approx(
        {"micro_f1": 4 / 5, "macro_f1": (2 / 3 + 1) / 2, "subset_accuracy": 2 / 3}, rel=FLOAT64
    )
    twice = np.array([[0.0, 2.0, 0.0]])  # the second row, and no other
    assert scoring.metric(twice)["subset_accuracy"].tolist() == [0.0]
    assert set(scoring.intervals(100)) >= {"micro_f1_low", "macro_f1_high"}


def test_predictions_for_other_labels_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"predictions are \(2, 3\), golds \(2, 2\)\. Expected the same shape"):
        score_targets(make_tags("a", "b"), np.zeros((2, 2), dtype=np.int64), np.zeros((2, 3), dtype=np.int64))


def test_spans_are_not_scored_as_targets() -> None:
    with pytest.raises(AssertionError, match="score_squad2"):
        score_targets(TASKS["squad2"], np.zeros(1), np.zeros(1))


def test_a_score_of_nothing_is_refused(tokenizer: TextTokenizer) -> None:
    calls: list[Callable[[], Scoring]] = [
        lambda: score_squad1({}, {}),
        lambda: score_squad2({}, {}, no_answer={}),
        lambda: score_paper({}, {}, tokenizer),
        lambda: score_targets(TASKS["cola"], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)),
    ]
    for score in calls:
        with pytest.raises(BertVisionError, match=r"there are no .* to score"):
            score()
