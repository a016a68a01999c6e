"""Context lengths of the questions that each of two models answers rightly, and of those that only one does."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertvision.analysis.checks import check_rows, check_same_questions
from bertvision.evaluation.bootstrap import Interval, bootstrap_intervals
from bertvision.evaluation.squad_metric import QuestionScores
from bertvision.tasks.examples import FloatArray, IntArray, Questions
from bertvision.tasks.windows import Windows


@dataclass(frozen=True, slots=True)
class LengthSummary:
    """A summary of context lengths, in tokens or in words.

    Attributes:
        mean: mean of the lengths.
        interval: 95 % bootstrap interval of the mean.
        median: median of the lengths.
    """

    mean: float
    interval: Interval
    median: float


@dataclass(frozen=True, slots=True)
class ContextGroup:
    """Context lengths of some questions; a context of several questions counts for each.

    Attributes:
        count: number of questions.
        tokens: lengths of their contexts in tokens; None without questions.
        words: the same in words, which white space separates.
    """

    count: int
    tokens: LengthSummary | None
    words: LengthSummary | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLengths:
    """Context lengths of all questions, and of those that two models answer rightly (exact match).

    Attributes:
        all: all questions.
        first: those that the first model answers rightly.
        second: those that the second model does.
        first_only: those that only the first model does.
        second_only: those that only the second model does.
    """

    all: ContextGroup
    first: ContextGroup
    second: ContextGroup
    first_only: ContextGroup
    second_only: ContextGroup


def context_tokens(windows: Windows) -> IntArray:
    """Number of tokens in the context of every question, (questions,), over all its windows."""
    begins = np.flatnonzero(np.diff(windows.example, prepend=-1))  # each question's first window
    ends = windows.context_token + windows.context[:, 1] - windows.context[:, 0]
    return np.asarray(np.maximum.reduceat(ends, begins) - windows.context_token[begins], dtype=np.int64)


def context_lengths(
    examples: Questions,
    tokens: IntArray,
    *,
    first: QuestionScores,
    second: QuestionScores,
    resamples: int = 1000,
) -> ContextLengths:
    """Context lengths of the questions that two models answer.

    Args:
        examples: the questions.
        tokens: (questions,) tokens in the context of each; see `context_tokens`.
        first: scores of the first model, in the order of the questions.
        second: scores of the second model, likewise.
        resamples: number of bootstrap draws for the intervals.

    Raises:
        BertVisionError: scores or lengths are not of these questions, or there are too few draws.
    """
    check_rows(len(examples), len(tokens), "context lengths")
    for scores, what in ((first, "the first model's scores"), (second, "the second model's scores")):
        check_same_questions(examples.ids, scores.ids, what)
    by_context = np.array([len(context.split()) for context in examples.contexts], dtype=np.int64)
    words = by_context[examples.context_index]

    def group(chosen: NDArray[np.bool_]) -> ContextGroup:
        return _group(tokens[chosen].astype(np.float64), words[chosen].astype(np.float64), resamples)

    first_right, second_right = first.exact == 1.0, second.exact == 1.0
    return ContextLengths(
        all=group(np.ones(len(examples), dtype=np.bool_)),
        first=group(first_right),
        second=group(second_right),
        first_only=group(first_right & ~second_right),
        second_only=group(second_right & ~first_right),
    )


def _group(tokens: FloatArray, words: FloatArray, resamples: int) -> ContextGroup:
    if not len(tokens):
        return ContextGroup(0, None, None)

    def means(counts: FloatArray) -> dict[str, FloatArray]:
        return {"tokens": counts @ tokens / counts.sum(axis=1), "words": counts @ words / counts.sum(axis=1)}

    intervals = bootstrap_intervals(means, len(tokens), resamples=resamples)
    in_tokens, in_words = (
        LengthSummary(float(lengths.mean()), intervals[unit], float(np.median(lengths)))
        for unit, lengths in (("tokens", tokens), ("words", words))
    )
    return ContextGroup(len(tokens), in_tokens, in_words)
