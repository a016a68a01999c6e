"""Buffers: memory for batches that is used again, because fresh memory costs more than what is copied into it."""

import math
import weakref
from collections.abc import Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@final
class Buffers:
    """Hands out float32 tensors; the memory of one that nobody holds any more serves for the next.

    The system hands out fresh memory page by page and clears it, at a few GB per second: on a CPU that takes as long as
    widening 16-bit states into it.
    """

    def __init__(self) -> None:
        self._free: list[NDArray[np.float32]] = []

    def take(self, shape: Sequence[int]) -> Tensor:
        """An uninitialised tensor of a shape."""
        size = math.prod(shape)
        try:
            buffer = self._free.pop()  # one step, so that two threads never get the same
        except IndexError:
            buffer = np.empty(size, dtype=np.float32)
        if buffer.size < size:  # too small for this batch, and so for others: it is given up
            buffer = np.empty(size, dtype=np.float32)
        view = buffer[:size].reshape(shape)
        # the tensor holds the view, and so do all tensors that share its memory: the last of them gives it back
        weakref.finalize(view, self._free.append, buffer).atexit = False
        return torch.from_numpy(view)
