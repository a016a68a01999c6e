"""Outputs of a model on a split: logits of every token, or one row per example; and means over several heads."""

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
    """Start and end logits of every token, (tokens,) each, in the order of `Windows.ids`."""

    start: Scores
    end: Scores


Outputs = SpanScores | NDArray[np.float32]
"""Outputs on a whole split: scores of every token, or one row per window, (windows, outputs)."""


def as_spans(outputs: Outputs) -> SpanScores:
    """The outputs of a span task.

    Raises:
        TypeError: they are those of another task, which is a bug of the caller.
    """
    if not isinstance(outputs, SpanScores):
        raise TypeError("spans come from scores of tokens")
    return outputs


def as_rows(outputs: Outputs) -> NDArray[np.float32]:
    """The outputs of a task with labels, tags or scores.

    Raises:
        TypeError: they are those of a span task, which is a bug of the caller.
    """
    if isinstance(outputs, SpanScores):
        raise TypeError("labels, tags and scores come from rows")
    return outputs


def split_scores(scores: NDArray[np.float32]) -> SpanScores:
    """(tokens, 2) → scores as first and as last token, apart."""
    return SpanScores(np.ascontiguousarray(scores[:, 0]), np.ascontiguousarray(scores[:, 1]))


@final
class GatheredOutputs:
    """Collects the outputs of several models on a whole split from batches in any order."""

    def __init__(self, task: Task, windows: Windows, models: int) -> None:
        self._windows = windows
        self._spans = task.kind == "spans"
        count = len(windows.ids) if self._spans else len(windows)
        self._arrays = [np.empty((count, task.outputs), dtype=np.float32) for _ in range(models)]

    def put(self, rows: IntArray, values: Iterable[NDArray[np.float32]]) -> None:
        """Add the outputs of every model for a batch.

        Args:
            rows: numbers of the windows.
            values: of every model: for spans (tokens, 2), the real tokens of all windows; otherwise (windows, outputs).
        """
        places = self._windows.places(rows) if self._spans else rows
        for array, some in zip(self._arrays, values, strict=True):
            array[places] = some

    def outputs(self) -> list[Outputs]:
        """The outputs of every model; call it after `put` for all windows."""
        return [split_scores(array) if self._spans else array for array in self._arrays]


def all_finite(outputs: Outputs) -> bool:
    """Whether no output is NaN or infinite."""
    columns = (outputs.start, outputs.end) if isinstance(outputs, SpanScores) else (outputs,)
    return all(bool(np.isfinite(column).all()) for column in columns)


def log_columns(task: Task, windows: TokenRows, outputs: Outputs) -> list[Values]:
    """Log-probabilities of first and of last tokens, or of classes; scores, and how likely each tag is, as they are."""
    if isinstance(outputs, SpanScores):
        return [token_log_probabilities(column, windows.bounds) for column in (outputs.start, outputs.end)]
    return [class_log_probabilities(outputs) if task.kind == "labels" else outputs]


def from_columns(columns: list[Values]) -> Outputs:
    """Outputs from what `log_columns` made of them."""
    return SpanScores(columns[0], columns[1]) if len(columns) == 2 else columns[0]


def merge_rows(task: Task, windows: Windows, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """One row per example; of several windows, the one surest of the last class, (windows, …) → (examples, …).

    Only answerability has several windows per example: there is an answer if any window has one.
    """
    if len(windows) == windows.example[-1] + 1:
        return rows
    sureness = rows[:, -1] - rows[:, :-1].max(axis=1) if task.kind == "labels" else rows[:, 0]
    order = np.lexsort((sureness, windows.example))
    return rows[order[np.flatnonzero(np.diff(windows.example[order], append=-1))]]


def merge_windows(task: Task, windows: Windows, outputs: Outputs) -> Outputs:
    """What is said of the examples: scores of tokens as they are, else one row per example."""
    return outputs if isinstance(outputs, SpanScores) else merge_rows(task, windows, outputs)


def join_heads(task: Task, windows: Windows, outputs: Sequence[Outputs]) -> Outputs:
    """The ensemble (mean) of several heads; the windows of an example are merged to one row first."""
    whole = [merge_windows(task, windows, one) for one in outputs]
    if len(whole) == 1:
        return whole[0]
    columns = zip(*(log_columns(task, windows, one) for one in whole), strict=True)
    return from_columns([weighted_mean(column, np.full(len(whole), 1.0 / len(whole))) for column in columns])


def predicted_targets(task: Task, rows: NDArray[np.float32]) -> IntArray | FloatArray:
    """Predictions from logits, (examples, outputs): argmax for labels, probability above 1/2 for tags, or scores."""
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
    """Predictions from logits, (examples, outputs), as in files: a label, a list of labels, or a score each."""
    targets, words = predicted_targets(task, rows), task.labels
    match task.kind:
        case "labels":
            return [words[number] for number in targets.astype(np.int64).tolist()]
        case "tags":
            return [[word for word, there in zip(words, row, strict=True) if there] for row in targets.tolist()]
        case _:
            scores: list[float] = targets.tolist()
            return scores
