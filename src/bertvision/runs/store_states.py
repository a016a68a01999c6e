"""StoreStates: states of a part of a split from a store on disk, as an encoder would give them."""

from typing import final

import numpy as np
import torch

from bertvision.encoder.states import HiddenStates
from bertvision.runs.states import RowStates
from bertvision.store.reader import StoreReader
from bertvision.tasks.examples import Examples, IntArray
from bertvision.tasks.windows import Windows
from bertvision.training.states import StateBatch


@final
class StoreStates:
    """States of some windows of a store; training cannot tell them from an encoder's."""

    def __init__(self, reader: StoreReader, rows: IntArray, windows: Windows, device: torch.device) -> None:
        """Read from a store.

        Args:
            reader: the store.
            rows: (windows,) where each window of this part stands in the store.
            windows: of this part.
            device: where heads are.
        """
        self._reader = reader
        self._rows = rows
        self._windows = windows
        self._device = device

    def batch(self, rows: IntArray) -> StateBatch:
        """The states of the windows at `rows`."""
        hidden = self._reader.batch(self._rows[rows])
        context = torch.zeros_like(hidden.mask)
        for number, row in enumerate(rows):
            begin, end = self._windows.bounds[row : row + 2]
            if end - begin <= context.shape[1]:
                context[number, : end - begin] = torch.from_numpy(self._windows.types[begin:end] > 0)
        moved = HiddenStates(
            hidden.states.to(self._device, non_blocking=True),
            hidden.mask.to(self._device),
            context=context.to(self._device),
        )
        return StateBatch(moved, lowest=self._reader.manifest.content.first_layer)


def stored_rows(whole: Examples, part: Examples, windows: Windows) -> IntArray:
    """Where the windows of some examples stand among the windows of all of them, in the order of the part.

    Args:
        whole: the examples that the store was made of.
        part: some of them, in any order.
        windows: of the whole.
    """
    place = {key: number for number, key in enumerate(whole.ids)}
    begins = np.searchsorted(windows.example, np.arange(len(whole) + 1))
    chosen = [place[key] for key in part.ids]
    return np.concatenate([np.arange(begins[number], begins[number + 1]) for number in chosen])


def rows_in_memory(reader: StoreReader, rows: IntArray, device: torch.device) -> RowStates:
    """One row per window, read once: (windows, layers, width)."""
    parts = [reader.batch(rows[begin : begin + 1024]).states[:, :, 0] for begin in range(0, len(rows), 1024)]
    return RowStates(torch.cat(parts), device, lowest=reader.manifest.content.first_layer)
