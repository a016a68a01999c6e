"""What the plain reference in tests/reference does not speak about: single questions, rows, order."""

from collections.abc import Sequence

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.evaluation.squad_metric import (
    AnswerComparison,
    QuestionScores,
    apply_threshold,
    best_threshold,
    check_same_questions,
    cut_totals,
    no_answer_array,
    score_questions,
    squad2_metrics,
    weighted_squad2,
)
from close import FLOAT64


@pytest.fixture
def scores() -> QuestionScores:
    """Right, half right (2/3), wrongly answered, rightly silent, missing."""
    golds = {"q1": ["cat"], "q2": ["red fox"], "q3": [], "q4": [], "q5": []}
    return score_questions(golds, {"q4": "", "q3": "dog", "q2": "fox", "q1": "the cat", "extra": "x"})


def test_questions_are_scored_in_the_order_of_the_golds(scores: QuestionScores) -> None:
    assert scores.ids == ["q1", "q2", "q3", "q4", "q5"]
    assert scores.exact.tolist() == [1, 0, 0, 1, 0]
    assert scores.f1.tolist() == pytest.approx([1, 2 / 3, 0, 1, 0], rel=FLOAT64)
    assert scores.answerable.tolist() == [True, True, False, False, False]
    assert scores.answered.tolist() == [True, True, True, False, False]
    assert scores.given.tolist() == [True, True, True, True, False]
    assert (scores.missing, scores.extra) == (["q5"], ["extra"])


def test_a_gold_that_normalises_to_nothing_still_makes_a_question_answerable() -> None:
    scores = score_questions({"q": ["The"]}, {"q": ""})
    assert (scores.answerable.tolist(), scores.exact.tolist(), scores.f1.tolist()) == ([True], [1], [1])


def test_means_count_repeats_and_are_not_defined_without_any_question(scores: QuestionScores) -> None:
    means = weighted_squad2(scores, np.array([[2.0, 2, 0, 0, 0], [1, 0, 2, 1, 0]]))
    first, second = ({name: float(values[draw]) for name, values in means.items()} for draw in (0, 1))
    answerable = {"exact": 50, "f1": 250 / 3}
    expected = answerable | {f"HasAns_{name}": value for name, value in answerable.items()}
    expected |= {"NoAns_exact": np.nan, "NoAns_f1": np.nan}
    assert first == pytest.approx(expected, rel=FLOAT64, nan_ok=True)
    assert second == pytest.approx(
        {"exact": 50, "f1": 50, "HasAns_exact": 100, "HasAns_f1": 100, "NoAns_exact": 100 / 3, "NoAns_f1": 100 / 3},
        rel=FLOAT64,
    )


def test_means_may_be_over_some_questions(scores: QuestionScores) -> None:
    values = squad2_metrics(scores, np.array([1, 0]))
    answerable = {"exact": 50, "f1": 250 / 3, "total": 2}
    expected = answerable | {f"HasAns_{name}": value for name, value in answerable.items()}
    assert values == pytest.approx(expected, rel=FLOAT64)


def test_the_mean_of_a_part_without_questions_is_not_there() -> None:
    values = squad2_metrics(score_questions({"q": ["cat"]}, {"q": "cat"}))
    assert set(values) == {f"{part}{name}" for part in ("", "HasAns_") for name in ("exact", "f1", "total")}


def test_a_comparison_that_is_used_again_scores_the_same() -> None:
    comparison = AnswerComparison()
    for answer in ("the cat", "dog", "the cat"):
        golds, given = {"q": ["cat"]}, {"q": answer}
        again = score_questions(golds, given, comparison=comparison)
        assert again.exact.tolist() == score_questions(golds, given).exact.tolist()


def test_above_the_threshold_silence_is_right_only_where_it_was_given_and_there_is_no_answer(
    scores: QuestionScores,
) -> None:
    cut = apply_threshold(scores, np.array([0.9, 0.5, 0.9, 0.9, 0.9]), 0.5)
    assert cut.exact.tolist() == [0, 0, 1, 1, 0]
    assert cut.f1.tolist() == pytest.approx([0, 2 / 3, 1, 1, 0], rel=FLOAT64)
    assert cut.answered.tolist() == [False, True, False, False, False]


def test_totals_start_from_silence_and_follow_the_order(scores: QuestionScores) -> None:
    totals = cut_totals(scores, scores.f1, np.array([0, 2, 3, 1, 4]))
    assert totals.tolist() == pytest.approx([2, 3, 2, 2, 8 / 3, 8 / 3], rel=FLOAT64)


def test_the_best_threshold_is_the_value_of_the_last_question_answered(scores: QuestionScores) -> None:
    no_answer = {"q1": -3.0, "q2": -1.0, "q3": 0.0, "q4": 2.0, "q5": 2.0}
    assert best_threshold(scores, scores.f1, no_answer) == pytest.approx((100 * (2 + 5 / 3) / 5, -1), rel=FLOAT64)
    assert best_threshold(scores, scores.exact, no_answer) == pytest.approx((60, -3), rel=FLOAT64)


def test_no_answer_values_are_put_in_the_order_of_the_questions() -> None:
    assert no_answer_array(["b", "a"], {"a": 1.0, "b": 2.0, "c": 3.0}).tolist() == [2, 1]


def test_no_golds_and_no_predictions_are_no_mistake() -> None:
    check_same_questions({}, {})
    assert squad2_metrics(score_questions({}, {})) == {}


def test_an_empty_file_of_predictions_is_refused() -> None:
    with pytest.raises(BertVisionError, match="none of the 0 predictions is for one of the 1 questions"):
        check_same_questions({"q1": []}, {})


def test_a_pair_of_texts_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    compare = AnswerComparison._compare  # noqa: SLF001 - whether it is called is what is claimed

    def count(self: AnswerComparison, prediction: str, golds: Sequence[str]) -> tuple[float, float]:
        compared.append(prediction)
        return compare(self, prediction, golds)

    monkeypatch.setattr(AnswerComparison, "_compare", count)
    golds = {"q1": ["the red cat", "cat"], "q2": ["dog"], "q3": []}
    comparison = AnswerComparison()
    first = score_questions(golds, {"q1": "red cat", "q2": "red cat", "q3": "red cat"}, comparison=comparison)
    again = score_questions(golds, {"q1": "red cat", "q2": "a dog", "q3": ""}, comparison=comparison)
    assert compared == ["red cat", "red cat", "a dog"]  # with other golds it is another pair
    assert (first.f1.tolist(), again.f1.tolist()) == ([1.0, 0.0, 0.0], [1.0, 1.0, 1.0])


def test_words_count_as_often_as_they_stand_in_both_texts() -> None:
    golds, said = {"q1": ["no no no cat"]}, {"q1": "no no dog"}
    assert score_questions(golds, said).f1.tolist() == pytest.approx(
        [4 / 7], rel=FLOAT64
    )  # two of three words, two of four
