"""Sources of states for heads: a frozen encoder that runs for every batch, or one row per window in memory."""

from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from bertvision.encoder.batch import TokenBatch, move, packed_batch, padded_batch
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
    """The states of a split's windows, computed by a frozen encoder batch by batch and not kept."""

    def __init__(self, encoder: Encoder, windows: TokenRows, options: PassOptions, layers: range) -> None:
        self._encoder = encoder
        self._windows = windows
        self._options = options
        self._layers = layers
        fits = encoder.has_room(int(windows.lengths.max(initial=0)), options.multiple)
        self._multiple = options.multiple if options.packed or fits else 1

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
        """Every head's outputs, (windows, tokens, outputs), and their mask; heads read each layer once it is computed.

        No states are kept, only what heads make of each layer (see `LayerwiseHead.parts`), mostly far fewer numbers.

        Args:
            rows: numbers of the windows.
            heads: for each of which `can_follow` is true.
        """
        tokens = self._tokens(rows)
        collected: list[list[tuple[Tensor, ...]]] = [[] for _ in heads]

        def read_layer(layer: int, states: Tensor) -> None:
            states = states[:, None]  # (batch, 1, tokens, width)
            with self._autocast():
                for head, parts in zip(heads, collected, strict=True):
                    if layer in head.reads:
                        first = layer - head.reads[0]
                        parts.append(head.parts(states, first) if isinstance(head, LayerwiseHead) else (states,))

        self._encoder.visit(tokens, read_layer, depth=max(head.depth for head in heads))
        with self._autocast():
            return [
                read_parts(head, tuple(torch.cat(layers, dim=1) for layers in zip(*parts, strict=True)), tokens)
                for head, parts in zip(heads, collected, strict=True)
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
    """Whether a head can read one layer at a time: it is layer-wise, or reads a single layer token by token."""
    return isinstance(head, LayerwiseHead) or (len(head.reads) == 1 and head.token_wise)


@final
class RowStates:
    """One row of states per window, in memory.

    Attributes:
        rows: (windows, layers, width).
        lowest: number of the lowest layer.
        pairs: how the two texts of a pair became one row; `together` for single texts.
    """

    def __init__(self, rows: Tensor, device: torch.device, *, lowest: int = 0, pairs: Pairs = "together") -> None:
        self.rows = rows
        self._device = device
        self.lowest = lowest
        self.pairs: Pairs = pairs

    def batch(self, rows: IntArray) -> StateBatch:
        """The windows at `rows`, each of one token, its row."""
        # index_select takes half the time of an index
        states = move(self.rows.index_select(0, torch.from_numpy(rows)), self._device).unsqueeze(2)
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
    """One row per example and layer, (examples, layers, parts · width), float32 on the CPU; see `read_texts`.

    Args:
        encoder: frozen; layers above `layers` are not computed.
        texts: one item: a window per example; for pairs `apart` or `aligned` two: those of first and of second texts.
        options: how the forward pass is computed.
        pool: how the tokens of a text become one row.
        pairs: how the two texts of a pair become one row.
        layers: neighbouring layers; None takes all.
        padding: largest number of padding tokens in a batch; see `frozen_batches`.

    Raises:
        BertVisionError: a state is NaN or infinite.
    """
    if pairs == "apart":  # separately, so that first and second texts are in batches of similar lengths
        return join_texts(
            [encode_texts(encoder, [windows], options, pool=pool, layers=layers, padding=padding) for windows in texts]
        )
    encoder.eval()
    layers = range(encoder.depth + 1) if layers is None else layers
    rows = torch.empty(len(texts[0]), len(layers), PARTS[pairs] * encoder.width)
    streams = [StreamStates(encoder, windows, options, layers) for windows in texts]
    longest = np.maximum.reduce([windows.sizes for windows in texts])
    for numbers in frozen_batches(longest, encoder.device, padding=padding):
        values = read_texts([stream.batch(numbers).padded for stream in streams], pool, pairs).cpu()
        if not bool(values.isfinite().all()):
            raise BertVisionError(f"a state of {encoder.name} is not finite. Is the encoder whole?")
        rows[torch.from_numpy(numbers)] = values
    return rows
