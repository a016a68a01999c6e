"""A frozen pass over a whole split: the outputs of a model on every window, longest windows first."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertvision.encoder.batch import token_batch
from bertvision.evaluation.decode import Scores
from bertvision.evaluation.ensemble import Values, class_log_probabilities, token_log_probabilities
from bertvision.objectives import Pool, pool_rows
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import IntArray
from bertvision.tasks.task import Task
from bertvision.tasks.token_rows import TokenRows
from bertvision.tasks.windows import Windows
from bertvision.training.model import TunedModel

BATCH_TOKENS = {"cpu": 4096, "cuda": 65536}
"""Most tokens in a batch of a frozen pass, padding included."""


@dataclass(frozen=True, slots=True)
class SpanScores:
    """Scores of every token as an answer's first and last, (tokens,), in the order of `Windows.ids`."""

    start: Scores
    end: Scores


Outputs = SpanScores | NDArray[np.float32]
"""Of a whole split: scores of every token, or one row per window, (windows, outputs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOptions:
    """How a frozen pass is computed.

    Attributes:
        packed: whether windows are packed end to end.
        pad: number of the padding token.
        bf16: whether to compute in bfloat16; weights stay as they are.
    """

    packed: bool
    pad: int
    bf16: bool


@torch.inference_mode()
def span_scores(model: TunedModel, windows: Windows, options: PassOptions) -> SpanScores:
    """Start and end scores of every token of a split."""
    scores = np.empty((len(windows.ids), 2), dtype=np.float32)
    for rows, outputs, mask in _passes(model, windows, options):
        scores[windows.places(rows)] = outputs[mask].float().cpu().numpy()
    return split_scores(scores)


@torch.inference_mode()
def row_scores(model: TunedModel, windows: Windows, options: PassOptions, *, pool: Pool) -> NDArray[np.float32]:
    """The outputs of every window's row, (windows, outputs)."""
    collected: dict[int, NDArray[np.float32]] = {}
    for rows, outputs, mask in _passes(model, windows, options):
        values = pool_rows(outputs.float(), mask, pool).cpu().numpy()
        collected |= dict(zip(rows.tolist(), values, strict=True))
    return np.stack([collected[row] for row in range(len(windows))])


def split_scores(scores: NDArray[np.float32]) -> SpanScores:
    """(tokens, 2) → scores as first and as last token, apart."""
    return SpanScores(np.ascontiguousarray(scores[:, 0]), np.ascontiguousarray(scores[:, 1]))


def log_columns(task: Task, windows: TokenRows, outputs: Outputs) -> list[Values]:
    """Log-probabilities of first and of last tokens, or of classes; scores, and how likely each tag is, as they are."""
    if isinstance(outputs, SpanScores):
        return [token_log_probabilities(column, windows.bounds) for column in (outputs.start, outputs.end)]
    return [class_log_probabilities(outputs) if task.kind == "labels" else outputs]


def from_columns(columns: list[Values]) -> Outputs:
    """Outputs from what `log_columns` made of them."""
    return SpanScores(columns[0], columns[1]) if len(columns) == 2 else columns[0]


def frozen_batches(windows: TokenRows, device: torch.device, *, padding: int | None = None) -> list[IntArray]:
    """Batches for a pass that learns nothing, longest windows first, with so many tokens of padding at most."""
    tokens = BATCH_TOKENS["cpu" if device.type == "cpu" else "cuda"]
    return length_batches(windows.sizes, size=tokens, tokens=tokens, padding=padding)


def merge_rows(task: Task, windows: Windows, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """One row per example; of several windows, the one surest of the last class, (windows, …) → (examples, …).

    Only answerability has several windows per example: there is an answer if any window has one.
    """
    if len(windows) == windows.example[-1] + 1:
        return rows
    sureness = rows[:, -1] - rows[:, :-1].max(axis=1) if task.kind == "labels" else rows[:, 0]
    order = np.lexsort((sureness, windows.example))
    return rows[order[np.flatnonzero(np.diff(windows.example[order], append=-1))]]


def _passes(
    model: TunedModel, windows: Windows, options: PassOptions
) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor]]:
    device = model.encoder.device
    was_training = model.training
    model.eval()
    for rows in frozen_batches(windows, device):
        batch = token_batch(windows, rows, packed=options.packed, pad=options.pad)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=options.bf16):
            outputs, mask = model(batch.to(device))
        yield rows, outputs, mask
    model.train(was_training)
