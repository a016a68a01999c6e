"""How far what computes a pack agrees with PyTorch: the same examples read by both."""

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
"""Most that outputs may differ from PyTorch's, as a share of the largest of them, or of 1 if that is smaller: a dozen
layers in single precision, with sums in another order, stay a hundred times below."""

NEAR = 0.01
"""Two scores count as the same if they differ by less than this share, or by this."""


@dataclass(frozen=True, slots=True)
class ReaderOutputs:
    """What a reader gave for some examples.

    Attributes:
        columns: outputs of all heads.
        predictions: prediction for each example; for a question, its best answer and what is answered.
    """

    columns: list[NDArray[np.float32]]
    predictions: list[object]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a graph agrees with PyTorch.

    Attributes:
        difference: largest absolute difference of any output.
        largest: largest absolute value of PyTorch's outputs.
        agreement: share of the examples with the same prediction; of questions, with the same best answer that is
            given or not given alike.
    """

    difference: float
    largest: float
    agreement: float

    @property
    def allowed(self) -> float:
        """Most that outputs in float32 may differ."""
        return TOLERANCE * max(1.0, self.largest)

    @property
    def near(self) -> bool:
        """Whether a graph in float32 is right."""
        return self.difference <= self.allowed


def read_examples(reader: Reader, rows: Sequence[Row]) -> ReaderOutputs:
    """What a pack says of some examples."""
    (card,) = reader.cards
    query, questions = pack_query(reader, rows)
    (outputs,) = reader.read_heads([query])
    columns = [column for one in outputs for column in _columns(one)]
    found = join_heads(card.task, query.windows[0], outputs)
    if questions is None or not isinstance(found, SpanScores):
        return ReaderOutputs(columns, predicted_targets(card.task, np.asarray(found)).tolist())
    said = decode_spans(query.windows[0], found.start, found.end)
    # the answer, and whether it is given: where most questions get none, that alone would tell little
    texts = [said.texts(questions, threshold).values() for threshold in (None, card.threshold)]
    return ReaderOutputs(columns, list(zip(*texts, strict=True)))


def compare_examples(right: ReaderOutputs, other: ReaderOutputs) -> Agreement:
    """What a graph gave for some examples beside what PyTorch gave."""
    pairs = list(zip(right.columns, other.columns, strict=True))
    difference = max(float(np.abs(first - second).max()) for first, second in pairs)
    same = [_same(first, second) for first, second in zip(right.predictions, other.predictions, strict=True)]
    return Agreement(difference, max(float(np.abs(first).max()) for first in right.columns), float(np.mean(same)))


def _columns(outputs: Outputs) -> list[NDArray[np.float32]]:
    return [outputs.start, outputs.end] if isinstance(outputs, SpanScores) else [outputs]


def _same(first: object, second: object) -> bool:
    """Whether two predictions are the same; scores are if they are near."""
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= NEAR * max(1.0, abs(first))
    return first == second
