"""PeakMemory: the peak GPU memory of training steps, without that of the validation in between."""

from collections.abc import Mapping
from typing import final

import torch

from bertvision.device import Device, choose_device
from bertvision.runs.watch import Show


@final
class PeakMemory:
    """Measures whenever progress is shown, and passes the call on to another callback.

    A call with a loss and no snapshot follows training steps only; any other may follow a validation, whose memory does
    not count.

    Attributes:
        bytes: the peak so far; None without a GPU, or before the first loss.
    """

    def __init__(self, device: Device, show: Show | None = None) -> None:
        self._measures = choose_device(device).type == "cuda"
        self._show = show
        self.bytes: int | None = None
        if self._measures:
            torch.cuda.reset_peak_memory_stats()

    def show(self, step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        """Read PyTorch's peak after training steps, and reset it after every call; then pass the call on."""
        if self._measures:
            if "loss" in values and "snapshot" not in values:
                self.bytes = max(self.bytes or 0, torch.cuda.max_memory_allocated())
            torch.cuda.reset_peak_memory_stats()
        if self._show is not None:
            self._show(step, total, values, doing=doing)
