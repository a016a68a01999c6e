"""Scores of questions with and without an answer in the context, and by question word."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertvision.analysis.checks import check_same_questions
from bertvision.evaluation.squad_metric import QuestionScores, squad2_metrics
from bertvision.tasks.examples import Questions

QUESTION_WORDS = {
    **{word: word for word in ("what", "who", "when", "where", "which", "why", "how")},
    "whom": "who",
    "whose": "who",
}
"""Question words, and the group of each."""

OTHER = "other"

_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class PartScores:
    """Scores of some questions.

    Attributes:
        count: number of questions.
        exact: exact match, in percent.
        f1: mean F1, in percent.
    """

    count: int
    exact: float
    f1: float


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """Scores of a group of questions; None for a part without questions.

    Attributes:
        name: a question word, `other`, or `all`.
        all: all questions of the group.
        has_answer: those with an answer in the context.
        no_answer: those without.
    """

    name: str
    all: PartScores | None
    has_answer: PartScores | None
    no_answer: PartScores | None


@dataclass(frozen=True, slots=True)
class QuestionTypes:
    """Scores of all questions, and by question word.

    Attributes:
        overall: all questions.
        words: one group for each question word that occurs, largest group first, but `other` last.
    """

    overall: QuestionGroup
    words: tuple[QuestionGroup, ...]


def question_word(question: str) -> str:
    """The group of a question: that of its first question word, anywhere in it; `other` if it has none.

    Example:
        >>> question_word("In what year was it written, and who wrote it?")
        'what'
    """
    words = (match.group().lower() for match in _WORD.finditer(question))
    return next((QUESTION_WORDS[word] for word in words if word in QUESTION_WORDS), OTHER)


def question_types(examples: Questions, scores: QuestionScores) -> QuestionTypes:
    """Scores with and without an answer, of all questions and by question word.

    Args:
        examples: the questions.
        scores: scores of the same questions, in the same order.

    Raises:
        BertVisionError: the scores are not of these questions.
    """
    check_same_questions(examples.ids, scores.ids, "scores")
    words = np.array([question_word(question) for question in examples.questions], dtype=np.str_)
    groups = [_group(scores, name, words == name) for name in dict.fromkeys(words.tolist())]
    groups.sort(key=lambda group: (group.name == OTHER, -group.all.count if group.all else 0, group.name))
    return QuestionTypes(_group(scores, "all", np.ones(len(examples), dtype=np.bool_)), tuple(groups))


def _group(scores: QuestionScores, name: str, chosen: NDArray[np.bool_]) -> QuestionGroup:
    metrics = squad2_metrics(scores, np.flatnonzero(chosen))

    def part(prefix: str) -> PartScores | None:
        if f"{prefix}total" not in metrics:
            return None
        return PartScores(int(metrics[f"{prefix}total"]), metrics[f"{prefix}exact"], metrics[f"{prefix}f1"])

    return QuestionGroup(name, part(""), part("HasAns_"), part("NoAns_"))
