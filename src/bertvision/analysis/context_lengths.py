"""How long the contexts are of questions that two models answer, and of those that one of them alone does."""

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
    """Lengths of some contexts, in one unit.

    Attributes:
        mean: mean of the lengths.
        interval: interval of the mean.
        median: half are at most as long.
    """

    mean: float
    interval: Interval
    median: float


@dataclass(frozen=True, slots=True)
class ContextGroup:
    """The contexts of some questions, each counted once for every question.

    Attributes:
        count: how many questions there are.
        tokens: how long their contexts are in tokens; None without any question.
        words: the same in words between white space.
    """

    count: int
    tokens: LengthSummary | None
    words: LengthSummary | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextLengths:
    """Context lengths of all questions, and of those that two models answer rightly, which means exactly.

    Attributes:
        all: every question.
        first: right by the first model.
        second: right by the second.
        first_only: right by the first alone.
        second_only: right by the second alone.
    """

    all: ContextGroup
    first: ContextGroup
    second: ContextGroup
    first_only: ContextGroup
    second_only: ContextGroup


def context_tokens(windows: Windows) -> IntArray:
    """Tokens in the context of every question, (questions,), however many windows it was cut into."""
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
        second: those of the second.
        resamples: draws for the intervals of means.

    Raises:
        BertVisionError: scores or lengths are of other questions.
    """
    check_rows(len(examples), len(tokens), "context lengths")
    for scores, what in ((first, "the first model's scores"), (second, "the second model's scores")):
        check_same_questions(examples.ids, scores.ids, what)
    by_context = np.array([len(context.split()) for context in examples.contexts], dtype=np.int64)
    words = by_context[examples.context_index]

    def group(chosen: NDArray[np.bool_]) -> ContextGroup:
        return _group(tokens[chosen].astype(np.float64), words[chosen].astype(np.float64), resamples)

    ours, theirs = first.exact == 1.0, second.exact == 1.0
    return ContextLengths(
        all=group(np.ones(len(examples), dtype=np.bool_)),
        first=group(ours),
        second=group(theirs),
        first_only=group(ours & ~theirs),
        second_only=group(theirs & ~ours),
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
