import numpy as np
import pytest

from bertvision.tasks.examples import Texts
from bertvision.tasks.load import TASKS
from bertvision.tasks.reframe import QUESTIONS, question_of, reframe
from bertvision.tasks.task import TableLayout
from conftest import make_questions, make_tags


def texts(*rows: str, pairs: list[str] | None = None) -> Texts:
    return Texts(ids=[str(n) for n in range(len(rows))], texts=list(rows), pairs=pairs, targets=np.arange(len(rows)))


@pytest.mark.parametrize(
    ("task", "question"),
    [
        ("sst5", "Is this review positive or negative?"),
        ("quora", "Does the first question paraphrase the second question?"),
        ("sts", "Is the first sentence semantically equivalent to the second sentence?"),
    ],
)
def test_the_questions_are_those_of_the_document(task: str, question: str) -> None:
    assert question_of(TASKS[task], {}) == question


def test_a_single_text_is_the_context() -> None:
    asked = reframe(TASKS["sst5"], texts("Dramas like this make it human.", "Dull."), {})
    assert isinstance(asked, Texts)
    assert asked.texts == ["Is this review positive or negative?"] * 2
    assert asked.pairs == ["Dramas like this make it human.", "Dull."]
    assert (asked.ids, asked.targets.tolist()) == (["0", "1"], [0, 1])


def test_both_texts_of_a_pair_are_one_context() -> None:
    asked = reframe(TASKS["sts"], texts("A kid is talking in class.", pairs=["A girl is going to class."]), {})
    assert isinstance(asked, Texts)
    assert asked.pairs == ["First sentence: A kid is talking in class. Second sentence: A girl is going to class."]


def test_the_users_question_wins_for_its_task_alone() -> None:
    mine = {"sst5": "Is it kind?"}
    assert question_of(TASKS["sst5"], mine) == "Is it kind?"
    assert question_of(TASKS["sst2"], mine) == QUESTIONS["sst2"]


def test_questions_about_contexts_stay_as_they_are() -> None:
    questions = make_questions(("Where?", "Here it is.", "Here"))
    assert reframe(TASKS["squad2"], questions, {"squad2": "Why?"}) is questions


def test_every_task_of_texts_has_a_question_and_every_question_a_task() -> None:
    assert set(QUESTIONS) == {name for name, task in TASKS.items() if isinstance(task.layout, TableLayout)}


def test_the_users_own_tasks_have_a_question_too() -> None:
    assert question_of(make_tags("a", "b"), {}) == "Which labels does this text have?"
