"""The outputs of a model on all windows of a split, without gradients, in batches with the longest windows first."""

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
"""Largest number of tokens in a batch, padding included. On a CPU so few that a layer's values stay in the cache and
memory is reused; windows of a small batch also have more similar lengths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOptions:
    """How the forward pass of a frozen encoder is computed.

    Attributes:
        packed: whether windows are packed (concatenated) instead of padded.
        pad: id of the padding token.
        bf16: whether to compute in bfloat16 by autocast; weights keep their type.
        multiple: heads that read whole windows get lengths that are a multiple of this, unless the encoder has too few
            positions.
    """

    packed: bool
    pad: int
    bf16: bool
    multiple: int = 1


@torch.inference_mode()
def span_scores(model: TunedModel, windows: Windows, options: PassOptions) -> SpanScores:
    """Start and end scores of all tokens of a split."""
    scores = np.empty((len(windows.ids), 2), dtype=np.float32)
    for rows, outputs, mask in _passes(model, windows, options):
        scores[windows.places(rows)] = counted_outputs(outputs, mask, None)
    return split_scores(scores)


@torch.inference_mode()
def row_scores(model: TunedModel, windows: Windows, options: PassOptions, *, pool: Pool) -> NDArray[np.float32]:
    """The pooled outputs of all windows, (windows, outputs)."""
    scores = np.empty((len(windows), model.head.shape.outputs), dtype=np.float32)
    for rows, outputs, mask in _passes(model, windows, options):
        scores[rows] = counted_outputs(outputs, mask, pool)
    return scores


def counted_outputs(outputs: Tensor, mask: Tensor, pool: Pool | None) -> NDArray[np.float32]:
    """One pooled row per window, (windows, outputs); if `pool` is None, one per real token, (real tokens, outputs)."""
    values = outputs.float()[mask] if pool is None else pool_rows(outputs.float(), mask, pool)
    array: NDArray[np.float32] = values.cpu().numpy()
    return array


def frozen_batches(sizes: IntArray, device: torch.device, *, padding: int | None = None) -> list[IntArray]:
    """Batches of windows for inference, the longest windows first.

    Args:
        sizes: (windows,) tokens per window.
        device: which limits the tokens in a batch, see `BATCH_TOKENS`.
        padding: largest number of padding tokens in a batch; None sets no limit.
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
