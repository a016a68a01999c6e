"""A frozen pass over a whole split: the outputs of a model on every window, longest windows first."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertvision.encoder.batch import token_batch
from bertvision.evaluation.outputs import SpanScores, split_scores
from bertvision.objectives import Pool, pool_rows
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import IntArray
from bertvision.tasks.windows import Windows
from bertvision.training.model import TunedModel

BATCH_TOKENS = {"cpu": 1024, "cuda": 65536}
"""Most tokens in a batch of a frozen pass, padding included. On a CPU a small batch is fastest: what a layer computes
stays in the cache, memory is reused, and windows of similar lengths need less padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOptions:
    """How a frozen pass is computed.

    Attributes:
        packed: whether windows are packed end to end.
        pad: number of the padding token.
        bf16: whether to compute in bfloat16; weights stay as they are.
        multiple: padded lengths are rounded up to a multiple of this, unless that exceeds the encoder's maximum.
    """

    packed: bool
    pad: int
    bf16: bool
    multiple: int = 1


@torch.inference_mode()
def span_scores(model: TunedModel, windows: Windows, options: PassOptions) -> SpanScores:
    """Start and end logits of every token of a split."""
    scores = np.empty((len(windows.ids), 2), dtype=np.float32)
    for rows, outputs, mask in _passes(model, windows, options):
        scores[windows.places(rows)] = counted_outputs(outputs, mask, None)
    return split_scores(scores)


@torch.inference_mode()
def row_scores(model: TunedModel, windows: Windows, options: PassOptions, *, pool: Pool) -> NDArray[np.float32]:
    """The pooled outputs of every window of a split, (windows, outputs)."""
    found = np.empty((len(windows), model.head.shape.outputs), dtype=np.float32)
    for rows, outputs, mask in _passes(model, windows, options):
        found[rows] = counted_outputs(outputs, mask, pool)
    return found


def counted_outputs(outputs: Tensor, mask: Tensor, pool: Pool | None) -> NDArray[np.float32]:
    """Outputs pooled over the tokens, (windows, outputs); without a pool those of real tokens, (tokens, outputs)."""
    values = outputs.float()[mask] if pool is None else pool_rows(outputs.float(), mask, pool)
    found: NDArray[np.float32] = values.cpu().numpy()
    return found


def frozen_batches(sizes: IntArray, device: torch.device, *, padding: int | None = None) -> list[IntArray]:
    """Batches of windows of similar lengths for a frozen pass, longest first.

    Args:
        sizes: (windows,) tokens of each.
        device: decides the batch size; see `BATCH_TOKENS`.
        padding: most tokens of padding in a batch; None sets no limit.
    """
    tokens = BATCH_TOKENS[device.type]
    return length_batches(sizes, size=tokens, tokens=tokens, padding=padding)


def _passes(
    model: TunedModel, windows: Windows, options: PassOptions
) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor]]:
    device = model.encoder.device
    was_training = model.training
    model.eval()
    for rows in frozen_batches(windows.sizes, device):
        batch = token_batch(windows, rows, packed=options.packed, pad=options.pad)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=options.bf16):
            outputs, mask = model(batch.to(device))
        yield rows, outputs, mask
    model.train(was_training)
