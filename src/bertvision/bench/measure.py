"""Timings side by side: every candidate runs in turn, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one candidate over all rounds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many times as long a baseline takes as ours: the median over rounds, and the range."""

    ratio: float
    least: float
    most: float


def side_by_side(candidates: Mapping[str, Callable[[], object]], *, rounds: int = 5) -> dict[str, Timing]:
    """Run every candidate once per round, in turn, after one round that does not count.

    Args:
        candidates: candidates by name.
        rounds: how many count.
    """
    for run in candidates.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def compare(ours: Timing, baseline: Timing) -> Comparison:
    """Ratios of the baseline's seconds to ours, round by round."""
    ratios = [theirs / mine for theirs, mine in zip(baseline.seconds, ours.seconds, strict=True)]
    return Comparison(statistics.median(ratios), min(ratios), max(ratios))
