"""StoreStates: states of some windows from a store on disk, in the same form as from an encoder."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from bertvision.encoder.batch import packed_batch, padded_batch
from bertvision.encoder.states import HiddenStates
from bertvision.inference.computed_states import RowStates
from bertvision.inference.outputs import PassOptions
from bertvision.store.reader import StoreReader
from bertvision.tasks.examples import Examples, IntArray
from bertvision.tasks.token_rows import ranges
from bertvision.tasks.windows import Windows
from bertvision.training.states import StateBatch


@dataclass(frozen=True, slots=True)
class StoredSplit:
    """A split in a store, with its examples and windows.

    Attributes:
        reader: of the split's folder.
        examples: the examples of the whole split.
        windows: the windows of the whole split.
    """

    reader: StoreReader
    examples: Examples
    windows: Windows

    def rows(self, part: Examples) -> IntArray:
        """The numbers in the store of the windows of some of its examples, in the order of these."""
        place = {key: number for number, key in enumerate(self.examples.ids)}
        chosen = np.array([place[key] for key in part.ids], dtype=np.int64)
        begins = np.searchsorted(self.windows.example, np.arange(len(self.examples) + 1))
        return ranges(begins[chosen], begins[chosen + 1] - begins[chosen])


@final
class StoreStates:
    """States of some windows of a store, batch by batch, in the same form as from `StreamStates`."""

    def __init__(  # noqa: PLR0913 - what states depend on, by keyword
        self,
        reader: StoreReader,
        rows: IntArray,
        windows: Windows,
        *,
        layers: range,
        options: PassOptions,
        device: torch.device,
    ) -> None:
        """Prepare to read states from a store.

        Args:
            reader: of the store.
            rows: (windows,) number in the store of each of these windows.
            windows: the windows.
            layers: numbers of the layers to read.
            options: how an encoder would compute the states; for a GPU they are packed in any case.
            device: of the heads.
        """
        self._reader = reader
        self._rows = rows
        self._windows = windows
        self._layers = layers
        self._packed = options.packed or device.type == "cuda"
        self._dtype = torch.bfloat16 if self._packed and options.bf16 else torch.float32
        self._device = device
        self._multiple = options.multiple

    def batch(self, rows: IntArray) -> StateBatch:
        """The states of the windows at `rows`."""
        stored = self._rows[rows]
        if self._packed:
            tokens = packed_batch(self._windows, rows, multiple=self._multiple).to(self._device)
            states = self._reader.packed(stored, self._layers, device=self._device, dtype=self._dtype)[None]
        else:
            tokens = padded_batch(self._windows, rows)
            states = self._reader.batch(stored, self._layers).states
        hidden = HiddenStates(states, tokens.mask, context=tokens.types > 0)
        return StateBatch(hidden, lowest=self._layers[0], packed=tokens if self._packed else None)


def rows_in_memory(reader: StoreReader, rows: IntArray, layers: range, device: torch.device) -> RowStates:
    """The rows of a store that keeps one row per window, read into memory: (windows, layers, width)."""
    return RowStates(reader.single(rows, layers), device, lowest=layers[0])
