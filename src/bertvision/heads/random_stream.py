"""RandomStream: a random state of its own for every head, so that its dropout does not depend on other heads."""

from types import TracebackType
from typing import final

import torch
from torch import Tensor


@final
class RandomStream:
    """Inside `with stream:` torch's global generators have this stream's state; afterwards the former state is back.

    Example:
        >>> stream = RandomStream(0)
        >>> with stream:
        ...     first = torch.rand(1)
        >>> _ = torch.rand(5)
        >>> with RandomStream(0):
        ...     again = torch.rand(1)
        >>> torch.equal(first, again)
        True
    """

    def __init__(self, seed: int, device: torch.device | None = None) -> None:
        self._device = device if device is not None and device.type == "cuda" else None
        self._mine = self._fresh(seed)
        self._theirs = self._mine

    def _fresh(self, seed: int) -> list[Tensor]:
        devices = [torch.device("cpu"), *([] if self._device is None else [self._device])]
        return [torch.Generator(device).manual_seed(seed).get_state() for device in devices]

    @property
    def state(self) -> list[Tensor]:
        """States of the generators, CPU first, for a checkpoint."""
        return self._mine

    @state.setter
    def state(self, state: list[Tensor]) -> None:
        self._mine = state

    def __enter__(self) -> None:
        self._theirs = self._swap(self._mine)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mine = self._swap(self._theirs)

    def _swap(self, states: list[Tensor]) -> list[Tensor]:
        """Set the states of torch's global generators and return the former ones."""
        before = [torch.get_rng_state()]
        torch.set_rng_state(states[0])
        if self._device is not None:
            before.append(torch.cuda.get_rng_state(self._device))
            torch.cuda.set_rng_state(states[1], self._device)
        return before
