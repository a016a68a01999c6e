"""Compare the outputs and predictions of an exported pack with PyTorch's, on the same examples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertvision.evaluation.decode import decode_spans
from bertvision.evaluation.outputs import Outputs, SpanScores, join_heads, predicted_targets
from bertvision.packs.predict import pack_query
from bertvision.packs.reader import Reader
from bertvision.packs.stream import Row

TOLERANCE = 1e-4
"""Largest allowed difference from PyTorch's outputs, relative to the largest of these (at least 1). In float32, with
sums in another order, the outputs of an encoder of a dozen layers differ a hundred times less."""

NEAR = 0.01
"""Largest difference at which two predicted scores count as the same, relative to the first one (at least 1)."""


@dataclass(frozen=True, slots=True)
class ReaderOutputs:
    """Outputs and predictions of one pack.

    Attributes:
        columns: outputs of all heads: start and end scores, (tokens,) each, or rows, (windows, outputs).
        predictions: one for each example; for a question, its best answer, and the same or "" by the threshold.
    """

    columns: list[NDArray[np.float32]]
    predictions: list[object]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Result of a comparison with PyTorch.

    Attributes:
        difference: largest absolute difference of any output.
        largest: largest absolute value of PyTorch's outputs.
        agreement: share of the examples with the same prediction; for questions, with the same best answer and the same
            decision whether to give it.
    """

    difference: float
    largest: float
    agreement: float

    @property
    def allowed(self) -> float:
        """Largest difference that is allowed in float32."""
        return TOLERANCE * max(1.0, self.largest)

    @property
    def near(self) -> bool:
        """Whether the difference is allowed in float32."""
        return self.difference <= self.allowed


def read_examples(reader: Reader, rows: Sequence[Row]) -> ReaderOutputs:
    """Outputs and predictions of a reader's only pack for examples."""
    (card,) = reader.cards
    query, questions = pack_query(reader, rows)
    (outputs,) = reader.read_heads([query])
    columns = [column for head in outputs for column in _columns(head)]
    joined = join_heads(card.task, query.windows[0], outputs)
    if questions is None or not isinstance(joined, SpanScores):
        return ReaderOutputs(columns, predicted_targets(card.task, np.asarray(joined)).tolist())
    answers = decode_spans(query.windows[0], joined.start, joined.end)
    # without the threshold, too: where most questions get no answer, agreement at the threshold alone shows little
    texts = [answers.texts(questions, threshold).values() for threshold in (None, card.threshold)]
    return ReaderOutputs(columns, list(zip(*texts, strict=True)))


def compare_examples(reference: ReaderOutputs, other: ReaderOutputs) -> Agreement:
    """Compare the outputs of an exported pack with those of PyTorch, the reference, on the same examples."""
    pairs = list(zip(reference.columns, other.columns, strict=True))
    difference = max(float(np.abs(first - second).max()) for first, second in pairs)
    largest = max(float(np.abs(column).max()) for column in reference.columns)
    same = [_same(first, second) for first, second in zip(reference.predictions, other.predictions, strict=True)]
    return Agreement(difference, largest, float(np.mean(same)))


def _columns(outputs: Outputs) -> list[NDArray[np.float32]]:
    return [outputs.start, outputs.end] if isinstance(outputs, SpanScores) else [outputs]


def _same(first: object, second: object) -> bool:
    """Whether two predictions are the same; for scores, whether they differ by no more than `NEAR`."""
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= NEAR * max(1.0, abs(first))
    return first == second
