"""Where heads find their states: an encoder that runs again for every batch, or memory."""

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
        parts = self._parts(rows)
        if len(parts) == 1:
            hidden = self._encoder(tokens, layers=self._layers)
        else:
            hidden = HiddenStates(self._joined(rows, parts, tokens), tokens.mask, context=tokens.types > 0)
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

    def _parts(self, rows: IntArray) -> list[IntArray]:
        """Which of a batch's windows are encoded together: on a CPU few, as in a pass without training."""
        if self._encoder.device.type != "cpu" or self._options.packed:
            return [np.arange(len(rows))]
        return frozen_batches(self._windows.lengths[rows], self._encoder.device)

    def _joined(self, rows: IntArray, parts: Sequence[IntArray], whole: TokenBatch) -> Tensor:
        """The states of a batch that is encoded in parts, (windows, layers, tokens, width)."""
        layers, dtype = self._layers, next(self._encoder.parameters()).dtype
        states = torch.zeros(len(rows), len(layers), whole.mask.shape[1], self._encoder.width, dtype=dtype)
        for some in parts:
            place = torch.from_numpy(some)

            def put(layer: int, found: Tensor, place: Tensor = place) -> None:
                if layer in layers:
                    states[place, layer - layers[0], : found.shape[1]] = found

            self._encoder.visit(self._tokens(rows[some]), put, depth=layers[-1])
        return states

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
        pairs: how two texts became one row; `together` where texts are single.
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
    """One row per example and layer, (examples, layers, parts · width), float32 in memory; one frozen pass.

    Args:
        encoder: frozen; it stops at the last of the layers.
        texts: windows of the examples: one each, or of pairs apart or aligned, those of the first texts and the second.
        options: how the pass is computed.
        pool: which row counts.
        pairs: how two texts become one row.
        layers: neighbouring ones; None takes all.
        padding: most tokens of padding in a batch; see `frozen_batches`.

    Raises:
        BertVisionError: a state is not finite.
    """
    if pairs == "apart":  # texts need not come in the order of the pairs, but in batches of like lengths
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
