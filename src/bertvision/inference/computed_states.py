"""Sources of hidden states: a frozen encoder that runs again for every batch, or memory."""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from bertvision.encoder.batch import TokenBatch, packed_batch, padded_batch
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.heads import Head, LayerwiseHead
from bertvision.inference.outputs import PassOptions, frozen_batches
from bertvision.inference.pair_rows import PARTS, join_texts, read_texts
from bertvision.tasks.examples import IntArray
from bertvision.tasks.task import Pairs, Pool
from bertvision.tasks.token_rows import TokenRows
from bertvision.training.states import StateBatch, read_parts


@final
class StreamStates:
    """States of a split's windows, computed by a frozen encoder for every batch, and not kept."""

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
        """Outputs of heads, each (windows, tokens, outputs), and their mask, computed while the encoder runs.

        Only the heads' parts of a layer are kept, not its states, so memory hardly grows with the depth.

        Args:
            rows: numbers of the windows.
            heads: heads that `can_follow`.
        """
        tokens = self._tokens(rows)
        parts: list[list[tuple[Tensor, ...]]] = [[] for _ in heads]  # of every head, layer by layer

        def visit(layer: int, states: Tensor) -> None:
            one = states[:, None]  # (batch, 1, tokens, width)
            with self._autocast():
                for head, mine in zip(heads, parts, strict=True):
                    if layer in head.reads:
                        first = layer - head.reads[0]
                        mine.append(head.parts(one, first) if isinstance(head, LayerwiseHead) else (one,))

        self._encoder.visit(tokens, visit, depth=max(head.depth for head in heads))
        with self._autocast():
            return [
                read_parts(head, tuple(torch.cat(part, dim=1) for part in zip(*mine, strict=True)), tokens)
                for head, mine in zip(heads, parts, strict=True)
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
    """Whether a head can be computed while the encoder runs, from one layer at a time; see `StreamStates.follow`."""
    return isinstance(head, LayerwiseHead) or (len(head.reads) == 1 and head.token_wise)


@final
class RowStates:
    """Pooled states in memory, one row per window and layer.

    Attributes:
        rows: (windows, layers, width).
        lowest: the encoder's number of the first layer.
        pairs: how two texts became one row; `together` for single texts.
    """

    def __init__(self, rows: Tensor, device: torch.device, *, lowest: int = 0, pairs: Pairs = "together") -> None:
        self.rows = rows
        self._device = device
        self.lowest = lowest
        self.pairs: Pairs = pairs

    def batch(self, rows: IntArray) -> StateBatch:
        """The rows at `rows`, as windows of one token."""
        states = self.rows[torch.from_numpy(rows)].to(self._device).unsqueeze(2)
        mask = torch.ones(len(rows), 1, dtype=torch.bool, device=self._device)
        return StateBatch(HiddenStates(states, mask), lowest=self.lowest)


@torch.no_grad()
def encode_texts(  # noqa: PLR0913 - what rows depend on, by keyword
    encoder: Encoder,
    texts: Sequence[TokenRows],
    options: PassOptions,
    *,
    pool: Pool,
    pairs: Pairs = "together",
    layers: range | None = None,
    padding: int | None = None,
) -> Tensor:
    """Encode and pool texts, or pairs of texts: (examples, layers, parts · width), float32 on the CPU.

    Args:
        encoder: frozen; it stops at the last of the layers.
        texts: the windows of all examples; for pairs `apart` or `aligned`, those of the first and of the second texts.
        options: how the pass is computed.
        pool: how states are pooled over the tokens.
        pairs: how two texts become one row; see `PARTS`.
        layers: consecutive layers; None takes all.
        padding: most tokens of padding in a batch; see `frozen_batches`.

    Raises:
        BertVisionError: a state is not finite.
    """
    if pairs == "apart":  # each side by itself, so that batches have texts of similar lengths
        return join_texts(
            [encode_texts(encoder, [windows], options, pool=pool, layers=layers, padding=padding) for windows in texts]
        )
    encoder.eval()
    layers = range(encoder.depth + 1) if layers is None else layers
    rows = torch.empty(len(texts[0]), len(layers), PARTS[pairs] * encoder.width)
    streams = [StreamStates(encoder, windows, options, layers) for windows in texts]
    longest = np.maximum.reduce([windows.sizes for windows in texts])
    for some in frozen_batches(longest, encoder.device, padding=padding):
        found = read_texts([stream.batch(some).padded for stream in streams], pool, pairs).cpu()
        if not bool(found.isfinite().all()):
            raise BertVisionError(f"a state of {encoder.name} is not finite. Is the encoder whole?")
        rows[torch.from_numpy(some)] = found
    return rows
