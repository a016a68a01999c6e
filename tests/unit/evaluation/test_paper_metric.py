import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import Scores
from bertvision.evaluation.paper_metric import decode_paper, score_questions_paper
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, build_windows
from close import FLOAT64
from conftest import make_questions

CONTEXT = "ada wrote it"
TOKENS = ["[CLS]", "who", "[SEP]", "ada", "wrote", "it", "[SEP]"]


def decoded(tokenizer: TextTokenizer, start: dict[str, float], end: dict[str, float]) -> str:
    """The answer to one question of one window; scores by token, 0 for the others."""
    questions = make_questions(("who", CONTEXT, None))
    windows = build_windows(TASKS["squad2"], questions, tokenizer)
    assert len(windows.ids) == len(TOKENS)
    first, last = (np.array([given.get(token, 0.0) for token in TOKENS], dtype=np.float32) for given in (start, end))
    return decode_paper(windows, first, last, questions)["q0"]


def test_the_answer_goes_from_the_best_start_to_the_best_end(tokenizer: TextTokenizer) -> None:
    assert decoded(tokenizer, {"ada": 2, "wrote": 1}, {"wrote": 3, "it": 1}) == "ada wrote"
    assert decoded(tokenizer, {"wrote": 2}, {"wrote": 3}) == "wrote"
    assert decoded(tokenizer, {"ada": 2}, {"it": 2}) == "ada wrote it"


def test_start_and_end_are_chosen_apart_so_that_an_end_before_the_start_is_no_answer(tokenizer: TextTokenizer) -> None:
    # "wrote it" would have 8 + 9, far more than silence, yet it is not considered
    assert decoded(tokenizer, {"it": 10, "wrote": 8}, {"ada": 10, "it": 9}) == ""


@pytest.mark.parametrize(("start", "end"), [("[CLS]", "[CLS]"), ("ada", "[CLS]"), ("ada", "who")])
def test_the_first_token_and_an_end_before_the_context_are_no_answer(
    tokenizer: TextTokenizer, start: str, end: str
) -> None:
    assert decoded(tokenizer, {start: 5}, {end: 5}) == ""


@pytest.mark.parametrize(
    ("start", "end", "answer"),
    [
        ("[CLS]", "wrote", "[CLS] who [SEP] ada wrote"),
        ("who", "ada", "[CLS] who [SEP] ada"),
        ("who", "who", "[CLS] who [SEP]"),
    ],
)
def test_tokens_before_the_context_are_an_answer_that_is_wrong(
    tokenizer: TextTokenizer, start: str, end: str, answer: str
) -> None:
    assert decoded(tokenizer, {start: 5}, {end: 5}) == answer
    scores = score_questions_paper({"no": [], "yes": ["ada"]}, {"no": answer, "yes": answer}, tokenizer)
    assert scores.exact.tolist() == [0, 0]
    assert scores.f1[0] == 0


@pytest.mark.parametrize(
    ("first", "context", "answer"),
    [(3, CONTEXT, f"{CONTEXT} [SEP]"), (6, CONTEXT, "[SEP]"), (0, "", "[CLS] who [SEP] [SEP]")],
)
def test_the_last_special_token_is_no_part_of_a_right_answer(
    tokenizer: TextTokenizer, first: int, context: str, answer: str
) -> None:
    questions = make_questions(("who", context, None))
    windows = build_windows(TASKS["squad2"], questions, tokenizer)
    start, end = np.eye(len(windows.ids), dtype=np.float32)[[first, -1]]
    assert decode_paper(windows, start, end, questions) == {"q0": answer}


def test_of_equally_good_tokens_the_first_is_taken(tokenizer: TextTokenizer) -> None:
    assert decoded(tokenizer, {"wrote": 5, "it": 5}, {"wrote": 5, "it": 5}) == "wrote"


def two_windows(
    tokenizer: TextTokenizer, first: tuple[int, int, float, float], second: tuple[int, int, float, float]
) -> dict[str, str]:
    """Windows "0 1 2 3" and "3 4 5 6"; of each the best start, best end, their score and that of the others."""
    questions = make_questions(("who", "0 1 2 3 4 5 6", None))
    options = WindowOptions(length=8, stride=1, question=2)
    windows = build_windows(TASKS["squad2"], questions, tokenizer, options)
    assert windows.bounds.tolist() == [0, 8, 16]
    start: Scores
    end: Scores
    start, end = np.zeros((2, 16), dtype=np.float32)
    for window, (best_start, best_end, top, rest) in enumerate((first, second)):
        start[8 * window : 8 * window + 8] = end[8 * window : 8 * window + 8] = rest
        start[8 * window + best_start] = end[8 * window + best_end] = top
    return decode_paper(windows, start, end, questions)


def test_the_most_confident_window_wins(tokenizer: TextTokenizer) -> None:
    assert two_windows(tokenizer, (3, 4, 6, 0), (5, 6, 4, 0)) == {"q0": "0 1"}
    assert two_windows(tokenizer, (3, 4, 4, 0), (5, 6, 6, 0)) == {"q0": "5 6"}


def test_of_equally_confident_windows_the_first_wins(tokenizer: TextTokenizer) -> None:
    assert two_windows(tokenizer, (3, 4, 6, 0), (5, 6, 6, 0)) == {"q0": "0 1"}


def test_confidence_is_the_probability_inside_the_window_and_not_the_score(tokenizer: TextTokenizer) -> None:
    # the first window has higher scores, but all of them are high
    assert two_windows(tokenizer, (3, 4, 101, 100), (4, 5, 2, 0)) == {"q0": "4 5"}


def test_a_confident_window_without_an_answer_wins_over_one_with_an_answer(tokenizer: TextTokenizer) -> None:
    assert two_windows(tokenizer, (0, 0, 6, 0), (5, 6, 4, 0)) == {"q0": ""}
    assert two_windows(tokenizer, (0, 0, 4, 0), (5, 6, 6, 0)) == {"q0": "5 6"}
    assert two_windows(tokenizer, (6, 3, 6, 0), (5, 6, 4, 0)) == {"q0": ""}  # an end before the start


def test_every_question_is_answered_from_its_own_windows_and_context(tokenizer: TextTokenizer) -> None:
    questions = make_questions(("who", "0 1 2 3 4 5 6", None), ("who", "ada", "ada"), ("who", "bob ran", None))
    options = WindowOptions(length=8, stride=1, question=2)
    windows = build_windows(TASKS["squad2"], questions, tokenizer, options)
    start, end = np.zeros((2, len(windows.ids)), dtype=np.float32)
    for window, place in ((0, 0), (1, 4), (2, 3), (3, 4)):
        start[windows.bounds[window] + place] = end[windows.bounds[window] + place] = 5 + window
    assert decode_paper(windows, start, end, questions) == {"q0": "4", "q1": "ada", "q2": "ran"}


@pytest.mark.parametrize(
    ("golds", "prediction", "exact", "f1"),
    [
        (["cat"], "cat", 1, 1),
        (["cat"], "the cat", 0, 2 / 3),  # articles count
        (["cat"], "cat.", 0, 2 / 3),  # and so does punctuation
        (["cat"], "Cat", 1, 1),  # but these word pieces have no capitals
        (["embedding"], "embeddings", 0, 6 / 7),  # em ##bed ##ding, and ##s
        (["new new york"], "new york york", 0, 2 / 3),
        (["dog", "red fox", "fox"], "fox", 1, 1),
        (["old red fox", "dog"], "red fox", 0, 4 / 5),
        (["cat"], "", 0, 0),
        ([], "", 1, 1),
        ([], "the", 0, 0),  # nothing is nothing only if it has no word pieces
        (["the"], "", 0, 0),
    ],
)
def test_word_pieces_are_compared_as_they_are(
    tokenizer: TextTokenizer, golds: list[str], prediction: str, exact: float, f1: float
) -> None:
    scores = score_questions_paper({"q": golds}, {"q": prediction}, tokenizer)
    assert scores.exact.tolist() == [exact]
    assert scores.f1.tolist() == pytest.approx([f1], rel=FLOAT64)


def test_missing_and_extra_predictions_are_counted(tokenizer: TextTokenizer) -> None:
    scores = score_questions_paper({"q1": [], "q2": []}, {"q2": "", "x": "cat"}, tokenizer)
    assert scores.exact.tolist() == [0, 1]
    assert (scores.missing, scores.extra) == (["q1"], ["x"])


def test_predictions_for_other_questions_altogether_are_refused(tokenizer: TextTokenizer) -> None:
    with pytest.raises(BertVisionError, match="none of the 1 predictions is for one of the 1 questions"):
        score_questions_paper({"q1": []}, {"x": ""}, tokenizer)
