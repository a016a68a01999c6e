import json
from dataclasses import asdict

import numpy as np
import pytest

from bertvision.analysis.second_answers import SecondAnswers, second_answer_texts, second_answers
from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import SpanPredictions
from close import about
from conftest import make_questions

CONTEXT = "ada wrote it, the ada"
ADA, WROTE, AGAIN = (0, 3), (4, 9), (14, 21)  # "ada", "wrote", "the ada", which reads as "ada" to the scorer
NONE = (0, 0)


def predicted(*rows: tuple[float, list[tuple[float, tuple[int, int]]]]) -> SpanPredictions:
    """From (score of "no answer", spans with their scores, best first)."""
    most = max(len(spans) for _, spans in rows)
    padded = [spans + [(-np.inf, NONE)] * (most - len(spans)) for _, spans in rows]
    return SpanPredictions(
        null=np.array([null for null, _ in rows], dtype=np.float64),
        scores=np.array([[score for score, _ in spans] for spans in padded], dtype=np.float64),
        starts=np.array([[span[0] for _, span in spans] for spans in padded], dtype=np.int64),
        ends=np.array([[span[1] for _, span in spans] for spans in padded], dtype=np.int64),
    )


@pytest.mark.parametrize(
    ("null", "spans", "second"),
    [
        (9.0, [(5.0, ADA), (4.0, WROTE)], "ada"),  # silence first: the best span is second
        (4.5, [(5.0, ADA), (4.0, WROTE)], ""),  # … and the other way round
        (1.0, [(5.0, ADA), (4.0, WROTE)], "wrote"),
        (4.0, [(5.0, ADA), (4.0, WROTE)], "wrote"),  # of equal scores the span, as the first answer is chosen
        (1.0, [(5.0, ADA), (4.0, AGAIN), (3.0, WROTE)], "wrote"),  # the same answer elsewhere is no second one
        (3.5, [(5.0, ADA), (4.0, AGAIN), (3.0, WROTE)], ""),
        (1.0, [(5.0, ADA), (-np.inf, NONE)], ""),  # no other span
        (1.0, [(-np.inf, NONE), (-np.inf, NONE)], ""),  # an empty context: nothing but silence
    ],
)
def test_no_answer_competes_with_the_spans(
    null: float, spans: list[tuple[float, tuple[int, int]]], second: str
) -> None:
    assert second_answer_texts(make_questions(("who", CONTEXT, None)), predicted((null, spans))) == {"q0": second}


def test_the_threshold_moves_no_answer_among_the_answers() -> None:
    examples, spans = make_questions(("who", CONTEXT, None)), [(5.0, ADA), (4.0, WROTE)]
    # 6 less 0.5, 1.5 and 3 is 5.5, 4.5 and 3: first, second, third
    for threshold, second in ((0.5, "ada"), (1.5, ""), (3.0, "wrote")):
        found = second_answer_texts(examples, predicted((6.0, spans)), threshold=threshold)
        assert found == {"q0": second}


def test_without_a_threshold_no_answer_is_none() -> None:
    examples = make_questions(("who", CONTEXT, "ada"))
    assert second_answer_texts(examples, predicted((9.0, [(5.0, ADA), (4.0, WROTE)])), threshold=None) == {
        "q0": "wrote"
    }
    assert second_answer_texts(examples, predicted((9.0, [(5.0, ADA), (-np.inf, NONE)])), threshold=None) == {
        "q0": "ada"
    }


SPANS = [(5.0, ADA), (4.0, WROTE)]
EXAMPLES = make_questions(
    ("a", CONTEXT, "ada"),  # silent, wrong; second right
    ("b", CONTEXT, "wrote"),  # silent, wrong; second "ada", wrong
    ("c", CONTEXT, "wrote"),  # "ada", wrong; second "wrote", right
    ("d", CONTEXT, "ada"),  # "ada", right
    ("e", CONTEXT, None),  # silent, right
    ("f", CONTEXT, None),  # "ada", wrong; second silent, right
    ("g", CONTEXT, None),  # "ada", wrong; second "wrote", wrong
    ("h", CONTEXT, None),  # silent, right
)
PREDICTIONS = predicted(*((null, SPANS) for null in (9.0, 9.0, 1.0, 1.0, 9.0, 4.5, 1.0, 9.0)))


def test_errors_and_second_answers_are_counted_over_their_own_wholes() -> None:
    assert second_answers(EXAMPLES, PREDICTIONS) == SecondAnswers(
        questions=8,
        has_answer_errors=3,
        predicted_empty=2,
        predicted_empty_share=about(2 / 3),  # a, b of a, b, c
        first_right=3,
        first_right_has_answer_share=about(1 / 3),  # d of d, e, h
        first_wrong=5,
        second_right=3,
        second_right_share=about(3 / 5),  # a, c, f of a, b, c, f, g
        second_right_has_answer_share=about(2 / 3),  # a, c of a, c, f
    )


def test_shares_of_nothing_are_undefined_and_it_turns_into_json() -> None:
    right = second_answers(EXAMPLES.select(np.array([3])), predicted((1.0, SPANS)))
    assert (right.predicted_empty_share, right.second_right_share, right.second_right_has_answer_share) == (None,) * 3
    assert json.loads(json.dumps(asdict(right), allow_nan=False))["first_right_has_answer_share"] == 1.0


def test_an_only_answer_that_is_right_does_not_count_as_a_second_one() -> None:
    found = second_answers(
        EXAMPLES.select(np.array([3])), predicted((9.0, [(5.0, ADA), (-np.inf, NONE)])), threshold=None
    )
    assert (found.first_right, found.second_right) == (1, 0)


def test_one_answer_for_each_question_is_too_few() -> None:
    with pytest.raises(BertVisionError, match=r"one answer for each question; two or more are expected\."):
        second_answers(EXAMPLES.select(np.array([0])), predicted((1.0, SPANS[:1])))


def test_predictions_for_more_questions_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"8 predictions for 1 examples\. Expected one for each\."):
        second_answers(EXAMPLES.select(np.array([0])), PREDICTIONS)
