"""Buffers: reuses the memory of batches, because new memory costs more time than copying states into it."""

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
    """Allocates float32 tensors, reusing the memory of tensors that are no longer referenced.

    The operating system clears new memory page by page, at a few GB per second: as long as it takes to convert 16-bit
    states to float32.
    """

    def __init__(self) -> None:
        self._free: list[NDArray[np.float32]] = []

    def take(self, shape: Sequence[int]) -> Tensor:
        """An uninitialised tensor of a shape."""
        size = math.prod(shape)
        try:
            buffer = self._free.pop()  # atomic, so two threads never get the same one
        except IndexError:
            buffer = np.empty(size, dtype=np.float32)
        if buffer.size < size:  # too small for this batch, and so for others: it is given up
            buffer = np.empty(size, dtype=np.float32)
        view = buffer[:size].reshape(shape)
        # the tensor holds the view, and so do all tensors that share its memory: the last of them gives it back
        weakref.finalize(view, self._free.append, buffer).atexit = False
        return torch.from_numpy(view)
