"""side_by_side: times candidates in turn in every round, so that other load on the machine slows all of them."""

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
        """The median of the rounds."""
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The speedup of ours over a baseline: the ratio of their seconds in each round.

    Attributes:
        ratio: median over rounds.
        least, most: range over rounds.
    """

    ratio: float
    least: float
    most: float


def side_by_side(candidates: Mapping[str, Callable[[], object]], *, rounds: int = 5) -> dict[str, Timing]:
    """Time every candidate once per round, in turn, after a warm-up round.

    Args:
        candidates: functions to time, by name.
        rounds: number of timed rounds.
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
    """The speedup of ours over a baseline; both were timed in the same rounds."""
    ratios = [slower / faster for slower, faster in zip(baseline.seconds, ours.seconds, strict=True)]
    return Comparison(statistics.median(ratios), min(ratios), max(ratios))
