"""How long something takes on a device, which may still be working when a call returns."""

import time
from collections.abc import Callable

import torch

REPEATS = 3
"""The least of so many counts: other work on the machine only ever adds."""

PATIENCE = 2.0
"""Seconds after which nothing is repeated: what is slow is measured well enough."""


def seconds_of(function: Callable[[], object], device: torch.device) -> float:
    """Seconds of a call; waits for a GPU before and after."""
    _wait(device)
    begin = time.perf_counter()
    function()
    _wait(device)
    return time.perf_counter() - begin


def least_seconds(function: Callable[[], object], device: torch.device) -> float:
    """The least seconds of a few calls."""
    found = [seconds_of(function, device)]
    while len(found) < REPEATS and sum(found) < PATIENCE:
        found.append(seconds_of(function, device))
    return min(found)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
