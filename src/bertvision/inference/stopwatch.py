"""Time that calls take on a device; a GPU may still be computing when a call returns."""

import time
from collections.abc import Callable

import torch

REPEATS = 3
"""Largest number of calls of which the fastest counts, since other work on the machine can only slow a call down."""

PATIENCE = 2.0
"""Total seconds after which a call is not repeated: slow calls are measured well enough."""


def seconds_of(function: Callable[[], object], device: torch.device) -> float:
    """Seconds of a call; synchronises with a GPU before and after."""
    _wait(device)
    begin = time.perf_counter()
    function()
    _wait(device)
    return time.perf_counter() - begin


def least_seconds(function: Callable[[], object], device: torch.device) -> float:
    """Seconds of the fastest of a few calls."""
    seconds = [seconds_of(function, device)]
    while len(seconds) < REPEATS and sum(seconds) < PATIENCE:
        seconds.append(seconds_of(function, device))
    return min(seconds)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
