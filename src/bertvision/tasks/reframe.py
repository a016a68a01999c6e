"""Reframing: a text becomes the context of a question, as in document 004 (Q&ABERT)."""

from collections.abc import Mapping
from dataclasses import replace

from bertvision.tasks.examples import Examples, Questions
from bertvision.tasks.task import Task

QUESTIONS = {
    # the first three are quoted from the document
    "sst5": "Is this review positive or negative?",
    "quora": "Does the first question paraphrase the second question?",
    "sts": "Is the first sentence semantically equivalent to the second sentence?",
    "cfimdb": "Is this review positive or negative?",
    "sst2": "Is this review positive or negative?",
    "cola": "Is this sentence acceptable English?",
    "mrpc": "Does the first sentence paraphrase the second sentence?",
    "qqp": "Does the first question paraphrase the second question?",
    "stsb": "Is the first sentence semantically equivalent to the second sentence?",
    "mnli": "Does the first sentence entail or contradict the second sentence?",
    "qnli": "Does the second sentence answer the question of the first sentence?",
    "rte": "Does the first sentence entail the second sentence?",
    "wnli": "Does the first sentence entail the second sentence?",
}
"""The question about the texts of each task; tasks of questions about contexts need none."""

_OWN = {
    "labels": "Which label does this text have?",
    "tags": "Which labels does this text have?",
    "scores": "Which score does this text have?",
}
_FIRST, _SECOND = "First sentence: ", " Second sentence: "


def question_of(task: Task, questions: Mapping[str, str]) -> str:
    """The question about the texts of a task: the user's if there is one, else the default."""
    return questions.get(task.name) or QUESTIONS.get(task.name) or _OWN[task.kind]


def reframe(task: Task, examples: Examples, questions: Mapping[str, str]) -> Examples:
    """Turn texts into pairs of one constant question and the text; a pair of texts becomes one text with both.

    Args:
        task: the task, which decides the question.
        examples: the examples of any split; questions about contexts are returned unchanged.
        questions: the user's own questions, by task.
    """
    if isinstance(examples, Questions):
        return examples
    contexts = examples.texts
    if examples.pairs is not None:
        contexts = [f"{_FIRST}{one}{_SECOND}{two}" for one, two in zip(examples.texts, examples.pairs, strict=True)]
    return replace(examples, texts=[question_of(task, questions)] * len(examples), pairs=contexts)
