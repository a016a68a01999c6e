"""Outputs of models on a split, scores of tokens or one row per window, and what is made of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never, final

import numpy as np
from numpy.typing import NDArray

from bertvision.evaluation.decode import Scores
from bertvision.evaluation.ensemble import Values, class_log_probabilities, token_log_probabilities, weighted_mean
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task
from bertvision.tasks.token_rows import TokenRows
from bertvision.tasks.windows import Windows


@dataclass(frozen=True, slots=True)
class SpanScores:
    """Scores (logits) of every token as an answer's first and last, (tokens,) each, in the order of `Windows.ids`."""

    start: Scores
    end: Scores


Outputs = SpanScores | NDArray[np.float32]
"""Outputs on a split: for spans the scores of all tokens, else one row per window, (windows, outputs)."""


def as_spans(outputs: Outputs) -> SpanScores:
    """The outputs of a task of kind `spans`; others raise a TypeError, which is a bug of the caller."""
    if not isinstance(outputs, SpanScores):
        raise TypeError("spans come from scores of tokens")
    return outputs


def as_rows(outputs: Outputs) -> NDArray[np.float32]:
    """The outputs of a task of kind `labels`, `tags` or `scores`; others raise a TypeError, a bug of the caller."""
    if isinstance(outputs, SpanScores):
        raise TypeError("labels, tags and scores come from rows")
    return outputs


def split_scores(scores: NDArray[np.float32]) -> SpanScores:
    """Outputs (tokens, 2) as scores of first and of last tokens, each contiguous."""
    return SpanScores(np.ascontiguousarray(scores[:, 0]), np.ascontiguousarray(scores[:, 1]))


@final
class GatheredOutputs:
    """Collects the outputs of several models on a split from batches in any order."""

    def __init__(self, task: Task, windows: Windows, models: int) -> None:
        self._windows = windows
        self._spans = task.kind == "spans"
        count = len(windows.ids) if self._spans else len(windows)
        self._arrays = [np.empty((count, task.outputs), dtype=np.float32) for _ in range(models)]

    def put(self, rows: IntArray, values: Iterable[NDArray[np.float32]]) -> None:
        """Store the outputs of one batch.

        Args:
            rows: numbers of its windows.
            values: for every model: of spans, (real tokens, outputs), window after window; else (windows, outputs).
        """
        places = self._windows.places(rows) if self._spans else rows
        for array, output in zip(self._arrays, values, strict=True):
            array[places] = output

    def outputs(self) -> list[Outputs]:
        """The outputs of every model; complete once every window was in a batch."""
        return [split_scores(array) if self._spans else array for array in self._arrays]


def all_finite(outputs: Outputs) -> bool:
    """Whether there is no NaN or infinity among the outputs, which do not include padding."""
    columns = (outputs.start, outputs.end) if isinstance(outputs, SpanScores) else (outputs,)
    return all(bool(np.isfinite(column).all()) for column in columns)


def log_columns(task: Task, windows: TokenRows, outputs: Outputs) -> list[Values]:
    """For spans, log-probabilities of first and of last tokens; for labels, of classes; tags and scores unchanged."""
    if isinstance(outputs, SpanScores):
        return [token_log_probabilities(column, windows.bounds) for column in (outputs.start, outputs.end)]
    return [class_log_probabilities(outputs) if task.kind == "labels" else outputs]


def from_columns(columns: list[Values]) -> Outputs:
    """The inverse of `log_columns` in form: outputs from its one or two arrays."""
    return SpanScores(columns[0], columns[1]) if len(columns) == 2 else columns[0]


def merge_rows(task: Task, windows: Windows, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """One row per example: of its windows, the row most confident of the last class, (windows, …) → (examples, …).

    Only the task of answerability has several windows per example: there is an answer if any window has one.
    """
    if len(windows) == windows.example[-1] + 1:
        return rows
    confidence = rows[:, -1] - rows[:, :-1].max(axis=1) if task.kind == "labels" else rows[:, 0]
    order = np.lexsort((confidence, windows.example))
    return rows[order[np.flatnonzero(np.diff(windows.example[order], append=-1))]]


def merge_windows(task: Task, windows: Windows, outputs: Outputs) -> Outputs:
    """Outputs with one row per example, by `merge_rows`; scores of tokens are unchanged."""
    return outputs if isinstance(outputs, SpanScores) else merge_rows(task, windows, outputs)


def join_heads(task: Task, windows: Windows, outputs: Sequence[Outputs]) -> Outputs:
    """The joint outputs of several heads, merged as by `merge_windows`: the mean of what `log_columns` gives."""
    merged = [merge_windows(task, windows, one) for one in outputs]
    if len(merged) == 1:
        return merged[0]
    columns = zip(*(log_columns(task, windows, one) for one in merged), strict=True)
    return from_columns([weighted_mean(column, np.full(len(merged), 1.0 / len(merged))) for column in columns])


def predicted_targets(task: Task, rows: NDArray[np.float32]) -> IntArray | FloatArray:
    """Predictions from rows (examples, outputs): class numbers, tags (1 where a logit is above 0), or scores."""
    match task.kind:
        case "labels":
            likeliest: IntArray = rows.argmax(axis=1)
            return likeliest
        case "tags":
            return (rows > 0).astype(np.int64)
        case "scores":
            return rows[:, 0].astype(np.float64)
        case "spans":
            raise AssertionError("answers in a text are decoded")
        case _:
            assert_never(task.kind)


def predicted_words(task: Task, rows: NDArray[np.float32]) -> list[str] | list[list[str]] | list[float]:
    """Predictions from rows (examples, outputs) as in files: for each a label's name, a list of names, or a score."""
    targets, words = predicted_targets(task, rows), task.labels
    match task.kind:
        case "labels":
            return [words[number] for number in targets.astype(np.int64).tolist()]
        case "tags":
            return [[word for word, tag in zip(words, row, strict=True) if tag] for row in targets.tolist()]
        case _:
            scores: list[float] = targets.tolist()
            return scores
