"""Seconds of a call: the least of a few, and of slow ones fewer."""

import itertools
import time

import pytest
import torch

from bertvision.inference.stopwatch import least_seconds, seconds_of

CPU = torch.device("cpu")


def test_seconds_are_those_of_the_call() -> None:
    assert seconds_of(lambda: time.sleep(0.02), CPU) >= 0.02


@pytest.mark.parametrize(("took", "calls"), [([0.5, 0.2, 0.4], 3), ([1.5, 0.7], 2), ([2.5], 1)])
def test_the_least_counts_and_slow_calls_are_not_repeated(
    monkeypatch: pytest.MonkeyPatch, took: list[float], calls: int
) -> None:
    clock = itertools.chain.from_iterable((0.0, seconds) for seconds in took)
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    made = []
    assert least_seconds(lambda: made.append(1), CPU) == min(took)
    assert len(made) == calls
