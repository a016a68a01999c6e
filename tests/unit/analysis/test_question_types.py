import json
from dataclasses import asdict

import numpy as np
import pytest

from bertvision.analysis.question_types import PartScores, question_types, question_word
from bertvision.errors import BertVisionError
from bertvision.evaluation.squad_metric import score_questions
from close import about
from conftest import make_questions

CONTEXT = "ada wrote it in london"
EXAMPLES = make_questions(
    ("Who wrote it?", CONTEXT, "ada"),
    ("By whom was it read?", CONTEXT, None),
    ("In what town?", CONTEXT, "london"),
    ("Was it written?", CONTEXT, None),
    ("WHOSE work is it?", CONTEXT, "ada"),
)
# F1 of "ada wrote" with "ada" is 2/3
PREDICTIONS = {"q0": "ada", "q1": "ada", "q2": "", "q3": "", "q4": "ada wrote"}
SCORES = score_questions(EXAMPLES.golds(), PREDICTIONS)


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("What is it?", "what"),
        ("In which year did it happen, and where?", "which"),
        ("who's there", "who"),
        ("To whom was it sent?", "who"),
        ("Whose idea was it?", "who"),
        ("HOW many were there?", "how"),
        ("Name the author.", "other"),
        ("Whatever happened?", "other"),
        ("Somewhat late?", "other"),
        ("", "other"),
    ],
)
def test_a_question_belongs_to_its_first_question_word(question: str, word: str) -> None:
    assert question_word(question) == word


def test_scores_are_means_over_the_questions_of_each_part() -> None:
    found = question_types(EXAMPLES, SCORES).overall
    # exact: q0 and q3 of five; with an answer q0 of three, without q3 of two
    assert found.name == "all"
    assert found.all == PartScores(5, 40.0, about(100 * (1 + 1 + 2 / 3) / 5))
    assert found.has_answer == PartScores(3, about(100 / 3), about(500 / 9))
    assert found.no_answer == PartScores(2, 50.0, 50.0)


def test_question_words_have_their_own_scores_the_largest_group_first_and_other_last() -> None:
    words = question_types(EXAMPLES, SCORES).words
    assert [(group.name, group.all.count if group.all else 0) for group in words] == [
        ("who", 3),
        ("what", 1),
        ("other", 1),
    ]
    who, what, other = words
    assert who.has_answer == PartScores(2, 50.0, about(100 * (1 + 2 / 3) / 2))
    assert who.no_answer == PartScores(1, 0.0, 0.0)
    assert (what.has_answer, what.no_answer) == (PartScores(1, 0.0, 0.0), None)
    assert (other.has_answer, other.no_answer) == (None, PartScores(1, 100.0, 100.0))


def test_no_question_has_no_scores() -> None:
    none = EXAMPLES.select(np.array([], dtype=np.int64))
    found = question_types(none, score_questions({}, {}))
    assert (found.overall.all, found.words) == (None, ())


def test_it_turns_into_json() -> None:
    content = json.loads(json.dumps(asdict(question_types(EXAMPLES, SCORES)), allow_nan=False))
    assert content["words"][0]["has_answer"]["count"] == 2


def test_scores_of_other_questions_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"scores are for 5 questions; 2 are expected\."):
        question_types(EXAMPLES.select(np.array([0, 1])), SCORES)
    turned = EXAMPLES.select(np.array([1, 0, 2, 3, 4]))
    with pytest.raises(BertVisionError, match="scores have question 'q0' in row 0, 'q1' is expected"):
        question_types(turned, SCORES)
