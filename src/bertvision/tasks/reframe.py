"""Reframing: every example as a question about a context, as document 004 does it (Q&ABERT)."""

from collections.abc import Mapping
from dataclasses import replace

from bertvision.tasks.examples import Examples, Questions
from bertvision.tasks.task import Task

QUESTIONS = {
    # the first three are those of the document
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
"""What is asked about the texts of each task; questions about a context have questions of their own."""

_OWN = {
    "labels": "Which label does this text have?",
    "tags": "Which labels does this text have?",
    "scores": "Which score does this text have?",
}
_FIRST, _SECOND = "First sentence: ", " Second sentence: "


def question_of(task: Task, questions: Mapping[str, str]) -> str:
    """What is asked about the texts of a task: the user's words, or ours."""
    return questions.get(task.name) or QUESTIONS.get(task.name) or _OWN[task.kind]


def reframe(task: Task, examples: Examples, questions: Mapping[str, str]) -> Examples:
    """Texts as contexts of one question, the same for all; pairs become one context with both sentences.

    Args:
        task: what is asked.
        examples: the examples of any split; questions about contexts stay as they are.
        questions: the user's own, by task.
    """
    if isinstance(examples, Questions):
        return examples
    contexts = examples.texts
    if examples.pairs is not None:
        contexts = [f"{_FIRST}{one}{_SECOND}{two}" for one, two in zip(examples.texts, examples.pairs, strict=True)]
    return replace(examples, texts=[question_of(task, questions)] * len(examples), pairs=contexts)
