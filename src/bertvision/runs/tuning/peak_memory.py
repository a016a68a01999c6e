"""PeakMemory: the most that steps took of a GPU's memory, whatever a validation in between takes."""

from collections.abc import Mapping
from typing import final

import torch

from bertvision.device import Device, choose_device
from bertvision.runs.watch import Show


@final
class PeakMemory:
    """Stands in front of whoever is told how far a run is: lines with a loss come after steps, others after more.

    Attributes:
        bytes: the most so far; None without a GPU, or before the first line of the log.
    """

    def __init__(self, device: Device, show: Show | None = None) -> None:
        self._measures = choose_device(device).type == "cuda"
        self._show = show
        self.bytes: int | None = None
        if self._measures:
            torch.cuda.reset_peak_memory_stats()

    def show(self, step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        """Look at the memory after steps, and forget what it was after anything else."""
        if self._measures:
            if "loss" in values and "snapshot" not in values:
                self.bytes = max(self.bytes or 0, torch.cuda.max_memory_allocated())
            torch.cuda.reset_peak_memory_stats()
        if self._show is not None:
            self._show(step, total, values, doing=doing)
