"""Timing on a device, with synchronisation."""

import time
from collections.abc import Callable

import torch

REPEATS = 3
"""Number of repetitions; the minimum counts, since other load on the machine can only add time."""

PATIENCE = 2.0
"""Seconds after which a measurement is not repeated: noise hardly matters for long ones."""


def seconds_of(function: Callable[[], object], device: torch.device) -> float:
    """Seconds of a call; synchronises with a GPU before and after."""
    _wait(device)
    begin = time.perf_counter()
    function()
    _wait(device)
    return time.perf_counter() - begin


def least_seconds(function: Callable[[], object], device: torch.device) -> float:
    """The minimum of the seconds of a few calls."""
    found = [seconds_of(function, device)]
    while len(found) < REPEATS and sum(found) < PATIENCE:
        found.append(seconds_of(function, device))
    return min(found)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
