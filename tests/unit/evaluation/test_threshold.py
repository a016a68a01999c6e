from dataclasses import replace

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.evaluation import threshold as threshold_module
from bertvision.evaluation.decode import SpanPredictions
from bertvision.evaluation.squad_metric import score_questions
from bertvision.evaluation.threshold import FEWEST, NoAnswerThreshold, fit_threshold
from bertvision.tasks.examples import Questions
from close import FLOAT64
from conftest import make_questions

CONTEXT = "ada wrote it"
RIGHT, NONE = "ada", None  # gold answers of questions whose prediction is always "ada"


def predicted(*margins: float) -> SpanPredictions:
    """The answer "ada" to every question, with these margins."""
    rows = len(margins)
    return SpanPredictions(
        null=np.array(margins, dtype=np.float64),
        scores=np.zeros((rows, 1)),
        starts=np.zeros((rows, 1), dtype=np.int64),
        ends=np.full((rows, 1), 3, dtype=np.int64),
    )


def asked(*golds: str | None) -> Questions:
    return make_questions(*(("who", CONTEXT, gold) for gold in golds))


def renamed(examples: Questions) -> Questions:
    """The same questions under ids that no threshold has seen."""
    return replace(examples, ids=[f"new-{key}" for key in examples.ids])


def test_the_threshold_lies_half_way_between_the_last_answer_and_the_first_silence() -> None:
    # silence 2; -2: 3; -1: 4; 2: 3; 3: 2
    threshold = fit_threshold(predicted(-2, 2, -1, 3), asked(RIGHT, NONE, RIGHT, NONE), no_answer_share=None)
    assert threshold == NoAnswerThreshold(0.5, frozenset({"q0", "q1", "q2", "q3"}))


def test_partly_right_answers_count_with_their_f1() -> None:
    # F1 of "ada" is 2/3 with "ada wrote" and 0 with "it": silence 2; 0: 2 2/3; 1: no gain; 2: 1 2/3
    threshold = fit_threshold(predicted(0, 1, 2, 3), asked("ada wrote", "it", NONE, NONE), no_answer_share=None)
    assert threshold.value == 0.5


def test_where_silence_is_best_nothing_is_answered() -> None:
    examples = asked(NONE, NONE, "it")
    threshold = fit_threshold(predicted(4, -3, 1), examples, no_answer_share=None)
    assert threshold.value < -3
    assert set(threshold.answers(predicted(4, -3, 1), renamed(examples)).values()) == {""}


def test_where_all_answers_are_right_everything_seen_is_answered() -> None:
    examples = asked(RIGHT, RIGHT)
    threshold = fit_threshold(predicted(7, -3), examples, no_answer_share=None)
    assert threshold.value == 7
    assert set(threshold.answers(predicted(7, -3), renamed(examples)).values()) == {"ada"}


def test_a_context_without_any_answer_does_not_move_the_threshold_to_infinity() -> None:
    predictions = predicted(-1, 2, 0)
    predictions.scores[2] = -np.inf  # an empty context: its margin is infinite
    predictions.ends[2] = 0
    assert fit_threshold(predictions, asked(RIGHT, RIGHT, NONE), no_answer_share=None).value == 2


def test_questions_with_equal_margins_are_answered_together_or_not_at_all() -> None:
    # one by one, the first alone would be answered; but no threshold does that, and all four lose to silence
    examples = asked(RIGHT, NONE, NONE, NONE)
    predictions = predicted(1, 1, 1, 1)
    threshold = fit_threshold(predictions, examples, no_answer_share=None)
    assert set(threshold.answers(predictions, renamed(examples)).values()) == {""}


def test_no_other_threshold_does_better_on_the_questions_it_was_fitted_on() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        golds = random.choice(np.array([RIGHT, NONE, "ada wrote", "it"], dtype=object), size=6)
        examples, predictions = asked(*golds), predicted(*random.integers(-2, 3, size=6).tolist())

        def f1(value: float, examples: Questions = examples, predictions: SpanPredictions = predictions) -> float:
            return float(score_questions(examples.golds(), predictions.texts(examples, value)).f1.sum())

        best = max(f1(value) for value in (-3, -2, -1, 0, 1, 2))
        assert f1(fit_threshold(predictions, examples, no_answer_share=None).value) == pytest.approx(best, rel=FLOAT64)


@pytest.fixture
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threshold_module, "FEWEST", 1)


@pytest.mark.usefixtures("few_are_enough")
def test_both_kinds_of_questions_count_the_same_however_many_there_are() -> None:
    # silence 1; -2: 2; -1: 1; 0: 2; 1: 3, so all are answered if each counts once;
    # 1/2 for the one without, 1/6 for the others: silence 1/2; -2: 2/3; -1: 1/6; 0: 1/3; 1: 1/2
    predictions, examples = predicted(-2, -1, 0, 1), asked(RIGHT, NONE, RIGHT, RIGHT)
    assert fit_threshold(predictions, examples, no_answer_share=None).value == 1
    assert fit_threshold(predictions, examples).value == -1.5
    # 1/5 and 4/15: silence 1/5; -2: 7/15; -1: 4/15; 0: 8/15; 1: 4/5
    assert fit_threshold(predictions, examples, no_answer_share=0.2).value == 1


@pytest.mark.parametrize(("with_answer", "without"), [(3, 0), (0, 3), (FEWEST - 1, FEWEST), (FEWEST, FEWEST - 1)])
def test_too_few_questions_of_a_kind_tell_nothing(with_answer: int, without: int) -> None:
    examples = asked(*[RIGHT] * with_answer, *[NONE] * without)
    predictions = predicted(*[-3.0] * with_answer, *[-1.0] * without)
    assert fit_threshold(predictions, examples).value == 0


def test_enough_questions_of_both_kinds_tell() -> None:
    examples = asked(*[RIGHT] * FEWEST, *[NONE] * FEWEST)
    assert fit_threshold(predicted(*[-3.0] * FEWEST, *[-1.0] * FEWEST), examples).value == -2


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 1.5, float("nan")])
def test_a_share_that_cannot_be_is_refused(share: float) -> None:
    with pytest.raises(BertVisionError, match=r"no_answer_share is .*, more than 0 and less than 1 is expected"):
        fit_threshold(predicted(0, 1), asked(RIGHT, NONE), no_answer_share=share)


def test_it_answers_new_questions_without_looking_at_their_golds() -> None:
    threshold = NoAnswerThreshold(0.5, frozenset({"other"}))
    predictions = predicted(0.5, 0.6, -1)
    answers = {"q0": "ada", "q1": "", "q2": "ada"}
    assert threshold.answers(predictions, asked(RIGHT, RIGHT, RIGHT)) == answers
    assert threshold.answers(predictions, asked(NONE, NONE, NONE)) == answers


def test_it_refuses_questions_that_it_was_fitted_on() -> None:
    examples = asked(RIGHT, NONE, RIGHT)
    threshold = fit_threshold(predicted(0, 1), examples.select(np.array([1, 2])))
    message = r"fitted on 2 of these 3 examples, first 'q1'\. Fit it on held-out training"
    with pytest.raises(BertVisionError, match=message):
        threshold.answers(predicted(0, 1, 2), examples)
    with pytest.raises(BertVisionError, match="1 of these 2 examples, first 'q2'"):
        threshold.check_unseen(["new", "q2"])
    threshold.check_unseen(["q0"])
