"""Where heads find their states: an encoder that runs again for every batch, or memory."""

from typing import final

import torch
from torch import Tensor

from bertvision.encoder.batch import packed_batch, padded_batch
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.states import HiddenStates
from bertvision.objectives import Pool, pool_rows
from bertvision.runs.outputs import PassOptions, frozen_batches
from bertvision.tasks.examples import IntArray
from bertvision.tasks.token_rows import TokenRows
from bertvision.training.states import StateBatch


@final
class StreamStates:
    """States of a split's windows from a frozen encoder, computed when they are asked for, and forgotten."""

    def __init__(self, encoder: Encoder, windows: TokenRows, options: PassOptions, layers: range) -> None:
        self._encoder = encoder
        self._windows = windows
        self._options = options
        self._layers = layers

    @torch.no_grad()
    def batch(self, rows: IntArray) -> StateBatch:
        """The states of the windows at `rows`."""
        options = self._options
        if options.packed:
            tokens = packed_batch(self._windows, rows)
        else:
            tokens = padded_batch(self._windows, rows, pad=options.pad)
        tokens = tokens.to(self._encoder.device)
        hidden = self._encoder(tokens, layers=self._layers)
        return StateBatch(hidden, lowest=self._layers[0], packed=tokens if options.packed else None)


@final
class RowStates:
    """One row of states per window, in memory.

    Attributes:
        rows: (windows, layers, width).
        lowest: number of the first layer.
    """

    def __init__(self, rows: Tensor, device: torch.device, *, lowest: int = 0) -> None:
        self.rows = rows
        self._device = device
        self.lowest = lowest

    def batch(self, rows: IntArray) -> StateBatch:
        """The rows at `rows`, as windows of one token."""
        states = self.rows[torch.from_numpy(rows)].to(self._device).unsqueeze(2)
        mask = torch.ones(len(rows), 1, dtype=torch.bool, device=self._device)
        return StateBatch(HiddenStates(states, mask), lowest=self.lowest)


@torch.no_grad()
def encode_rows(encoder: Encoder, windows: TokenRows, options: PassOptions, pool: Pool) -> Tensor:
    """One row per window and layer, (windows, layers, width), float32 in memory; one frozen pass."""
    encoder.eval()
    rows = torch.empty(len(windows), encoder.depth + 1, encoder.width)
    stream = StreamStates(encoder, windows, options, range(encoder.depth + 1))
    for some in frozen_batches(windows, encoder.device):
        hidden = stream.batch(some).padded
        rows[torch.from_numpy(some)] = pool_rows(hidden.states.float(), hidden.mask, pool).cpu()
    return rows


def compare_rows(first: Tensor, second: Tensor) -> Tensor:
    """Two texts' rows as one: how far they are apart, and how far they agree, number by number."""
    return torch.cat([(first - second).abs(), first * second], dim=-1)
