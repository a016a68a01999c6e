"""Where heads find their states: an encoder that runs again for every batch, or memory."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from bertvision.encoder.batch import TokenBatch, packed_batch, padded_batch
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.heads import Head, LayerwiseHead
from bertvision.objectives import Pool, pool_rows
from bertvision.runs.outputs import PassOptions, frozen_batches
from bertvision.tasks.examples import IntArray
from bertvision.tasks.token_rows import TokenRows
from bertvision.training.states import StateBatch, read_parts


@final
class StreamStates:
    """States of a split's windows from a frozen encoder, computed when they are asked for, and forgotten."""

    def __init__(self, encoder: Encoder, windows: TokenRows, options: PassOptions, layers: range) -> None:
        self._encoder = encoder
        self._windows = windows
        self._options = options
        self._layers = layers
        room = encoder.has_room(int(windows.lengths.max(initial=0)), options.multiple)
        self._multiple = options.multiple if options.packed or room else 1

    @torch.no_grad()
    def batch(self, rows: IntArray) -> StateBatch:
        """The states of the windows at `rows`."""
        tokens = self._tokens(rows)
        hidden = self._encoder(tokens, layers=self._layers)
        return StateBatch(hidden, lowest=self._layers[0], packed=tokens if tokens.packed else None)

    def follow(self, rows: IntArray, heads: Sequence[Head]) -> list[tuple[Tensor, Tensor]]:
        """Outputs of heads, each (windows, tokens, outputs), and their mask; heads read the layers as they come.

        No layer is kept, so memory does not grow with the depth. For heads that `can_follow`.
        """
        tokens = self._tokens(rows)
        taken: list[list[tuple[Tensor, ...]]] = [[] for _ in heads]

        def look(layer: int, states: Tensor) -> None:
            one = states[:, None]  # (batch, 1, tokens, width)
            with self._autocast():
                for head, mine in zip(heads, taken, strict=True):
                    if layer in head.reads:
                        first = layer - head.reads[0]
                        mine.append(head.parts(one, first) if isinstance(head, LayerwiseHead) else (one,))

        self._encoder.visit(tokens, look, depth=max(head.depth for head in heads))
        with self._autocast():
            return [
                read_parts(head, tuple(torch.cat(kind, dim=1) for kind in zip(*mine, strict=True)), tokens)
                for head, mine in zip(heads, taken, strict=True)
            ]

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self._encoder.device.type, torch.bfloat16, enabled=self._options.bf16)

    def _tokens(self, rows: IntArray) -> TokenBatch:
        pad, multiple = self._options.pad, self._multiple
        if self._options.packed:
            batch = packed_batch(self._windows, rows, multiple=multiple)
        else:
            batch = padded_batch(self._windows, rows, pad=pad, multiple=multiple)
        return batch.to(self._encoder.device)


def can_follow(head: Head) -> bool:
    """Whether a head can read the layers one at a time."""
    return isinstance(head, LayerwiseHead) or (len(head.reads) == 1 and head.token_wise)


@final
class RowStates:
    """One row of states per window, in memory.

    Attributes:
        rows: (windows, layers, width).
        lowest: number of the first layer.
        compared: whether they are those of two texts as one; see `compare_rows`.
    """

    def __init__(self, rows: Tensor, device: torch.device, *, lowest: int = 0, compared: bool = False) -> None:
        self.rows = rows
        self._device = device
        self.lowest = lowest
        self.compared = compared

    def batch(self, rows: IntArray) -> StateBatch:
        """The rows at `rows`, as windows of one token."""
        states = self.rows[torch.from_numpy(rows)].to(self._device).unsqueeze(2)
        mask = torch.ones(len(rows), 1, dtype=torch.bool, device=self._device)
        return StateBatch(HiddenStates(states, mask), lowest=self.lowest)


@torch.no_grad()
def encode_rows(
    encoder: Encoder, windows: TokenRows, options: PassOptions, pool: Pool, layers: range | None = None
) -> Tensor:
    """One row per window and layer, (windows, layers, width), float32 in memory; one frozen pass.

    Args:
        encoder: frozen; it stops at the last of the layers.
        windows: of a split.
        options: of the pass.
        pool: which row counts.
        layers: neighbouring ones; None takes all.

    Raises:
        BertVisionError: a state is not finite.
    """
    encoder.eval()
    layers = range(encoder.depth + 1) if layers is None else layers
    rows = torch.empty(len(windows), len(layers), encoder.width)
    stream = StreamStates(encoder, windows, options, layers)
    for some in frozen_batches(windows, encoder.device):
        hidden = stream.batch(some).padded
        found = pool_rows(hidden.states.float(), hidden.mask, pool).cpu()
        if not bool(found.isfinite().all()):
            raise BertVisionError(f"a state of {encoder.name} is not finite. Is the encoder whole?")
        rows[torch.from_numpy(some)] = found
    return rows


def join_texts(rows: Sequence[Tensor]) -> Tensor:
    """The rows of one text each, or of the first texts and the second as one; see `compare_rows`."""
    first, *second = rows
    return compare_rows(first, *second) if second else first


def compare_rows(first: Tensor, second: Tensor) -> Tensor:
    """Two texts' rows as one: how far they are apart, and how far they agree, number by number.

    Every layer's row has length 1 before that, so that what the texts share is not lost among how long their rows are.
    The sum of each half of a layer's row then says by itself how alike the texts are: the second is a cosine.
    """
    one, two = (nn.functional.normalize(rows, dim=-1) for rows in (first, second))
    return torch.cat([(one - two).abs(), one * two], dim=-1)
