"""The running mean of the training loss, over all processes."""

import math

import torch
from torch import Tensor

from bertvision.errors import DivergedError
from bertvision.training.checkpoint import Loss
from bertvision.training.processes import Processes


class Losses:
    """The sum and number of losses since the last log line; kept on the device, so that adding does not synchronise."""

    def __init__(self, accelerator: Processes, begin: Loss) -> None:
        self._accelerator = accelerator
        self._sum = torch.tensor(begin[0], device=accelerator.device, dtype=torch.float32)
        self._count = begin[1]

    def add(self, loss: Tensor, count: int) -> None:
        """Add the summed loss of `count` windows."""
        self._sum += loss
        self._count += count

    def peek(self, step: int) -> Loss:
        """Sum and count of this process, without a reset.

        Raises:
            DivergedError: the loss of some process is not finite.
        """
        self._over_all(step)
        return float(self._sum), self._count

    def mean(self, step: int) -> float:
        """Mean loss over the windows of all processes since the last call.

        Raises:
            DivergedError: the loss of some process is not finite.
        """
        total, count = self._over_all(step)
        self._sum.zero_()
        self._count = 0
        return total / count

    def _over_all(self, step: int) -> Loss:
        """Sum and count over all processes; if the loss is not finite, all of them raise."""
        pair = torch.stack([self._sum, torch.tensor(float(self._count), device=self._sum.device)])
        total, count = (float(value) for value in self._accelerator.reduce(pair, reduction="sum"))
        if not math.isfinite(total):
            raise DivergedError(
                f"the loss is {total} at step {step}. Snapshots made before are kept; "
                "use a smaller --lr or more --warmup, and another --out."
            )
        return total, int(count)
