"""Simulation of load imbalance: windows of random lengths, divided among processes as in extraction and in tuning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.bench.cost import Load
from bertvision.store.writer import SHARD_WINDOWS, shard_sums
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import FloatArray, IntArray

_CHUNK_SHARDS = 2**15
"""Shards whose windows are drawn at once: 4 million windows, 32 MB of lengths."""

_SEED = 0
"""The seed of all draws, so that equal requests have equal estimates."""

STEP_WINDOWS = 2**18
"""Number of windows whose steps are simulated; the result for more is scaled up from these."""

OperationsOf = Callable[[IntArray], FloatArray]
"""Lengths of windows → operations of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Windows of random lengths, summed up by the shards of a store.

    Attributes:
        windows: number of windows.
        tokens: (shards,) tokens of each shard.
        pairs: (shards,) pairs of tokens within a window, of each shard.
    """

    windows: int
    tokens: IntArray
    pairs: IntArray

    @property
    def load(self) -> Load:
        """The load of all shards."""
        return Load(windows=self.windows, tokens=float(self.tokens.sum()), pairs=float(self.pairs.sum()))


@dataclass(frozen=True, slots=True)
class ProcessLoads:
    """Operations of the processes, summed over the points where they wait for each other.

    Attributes:
        mean: mean over the processes.
        slowest: most operations of a process, for which all others wait.
    """

    mean: float
    slowest: float

    @property
    def waiting(self) -> float:
        """Share of the time in which a process waits for the slowest, on average."""
        return 1 - self.mean / self.slowest


def draw_shards(sample: IntArray, windows: int) -> Shards:
    """Draw windows with lengths from a sample, in chunks, so that memory does not grow with their lengths."""
    random = np.random.default_rng(_SEED)
    tokens, pairs = [], []
    for begin in range(0, windows, _CHUNK_SHARDS * SHARD_WINDOWS):
        lengths = random.choice(sample, size=min(_CHUNK_SHARDS * SHARD_WINDOWS, windows - begin))
        tokens.append(shard_sums(lengths))
        pairs.append(shard_sums(lengths**2))
    return Shards(windows=windows, tokens=np.concatenate(tokens), pairs=np.concatenate(pairs))


def shard_sizes(windows: int) -> IntArray:
    """Number of windows in every shard, (shards,): `SHARD_WINDOWS` in all but the last."""
    sizes = np.full(-(-windows // SHARD_WINDOWS), SHARD_WINDOWS)
    sizes[-1] = windows - SHARD_WINDOWS * (len(sizes) - 1)
    return sizes


def extract_shares(operations: FloatArray, groups: Sequence[range], *, processes: int) -> ProcessLoads:
    """Extraction: each of P processes computes every P-th group of shards, and waits for the others only at the end.

    Args:
        operations: (shards,) operations of each shard.
        groups: groups of shards that are computed together.
        processes: number of processes.
    """
    work = np.add.reduceat(operations, [group.start for group in groups])
    shares = np.bincount(np.arange(len(work)) % processes, weights=work)
    return ProcessLoads(float(work.sum()) / processes, float(shares.max()))


def step_shares(
    sample: IntArray, windows: int, operations_of: OperationsOf, *, batch: int, processes: int
) -> ProcessLoads:
    """Tuning: each of P processes takes every P-th window of a batch, and all wait for the slowest in every step.

    Args:
        sample: lengths to draw from.
        windows: windows of an epoch; only about `STEP_WINDOWS` of more are simulated.
        operations_of: function from lengths to operations of each window.
        batch: windows per step, of all processes together.
        processes: number of processes.
    """
    drawn = min(windows, max(STEP_WINDOWS, 8 * batch))
    lengths = np.random.default_rng(_SEED).choice(sample, size=drawn)
    operations = operations_of(lengths)
    mean, slowest = 0.0, 0.0
    for rows in length_batches(lengths, batch, seed=_SEED):
        shares = np.bincount(np.arange(len(rows)) % processes, weights=operations[rows])
        mean += float(operations[rows].sum()) / processes
        slowest += float(shares.max())
    return ProcessLoads(mean * windows / drawn, slowest * windows / drawn)
