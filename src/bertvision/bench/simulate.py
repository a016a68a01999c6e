"""Who waits for whom: windows of random lengths, shared out to processes by the rules of extraction and of tuning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.bench.cost import Load
from bertvision.store.writer import SHARD_WINDOWS, shard_sums
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import FloatArray, IntArray

_CHUNK_SHARDS = 2**15
"""Shards that are drawn at once: 4 million windows, 32 MB of lengths."""

_SEED = 0
"""The seed of all draws: the same question has the same answer."""

STEP_WINDOWS = 2**18
"""Most windows whose steps are simulated; more of them are alike."""

OperationsOf = Callable[[IntArray], FloatArray]
"""Lengths of windows → operations of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Drawn windows, summed up by the shards of a store.

    Attributes:
        windows: how many there are.
        tokens: (shards,) of each shard.
        pairs: (shards,) of tokens within a window.
    """

    windows: int
    tokens: IntArray
    pairs: IntArray

    @property
    def load(self) -> Load:
        """All of them."""
        return Load(windows=self.windows, tokens=float(self.tokens.sum()), pairs=float(self.pairs.sum()))


@dataclass(frozen=True, slots=True)
class ProcessLoads:
    """What every process does, (processes,), in operations, summed over all that they wait for each other for.

    Attributes:
        mean: mean over the processes.
        slowest: what all of them wait for.
    """

    mean: float
    slowest: float

    @property
    def waiting(self) -> float:
        """The share of the time in which a process waits for the slowest, on average."""
        return 1 - self.mean / self.slowest


def draw_shards(sample: IntArray, windows: int) -> Shards:
    """So many windows with lengths drawn from a sample; chunk by chunk, so that memory does not grow with them."""
    random = np.random.default_rng(_SEED)
    tokens, pairs = [], []
    for begin in range(0, windows, _CHUNK_SHARDS * SHARD_WINDOWS):
        lengths = random.choice(sample, size=min(_CHUNK_SHARDS * SHARD_WINDOWS, windows - begin))
        tokens.append(shard_sums(lengths))
        pairs.append(shard_sums(lengths**2))
    return Shards(windows=windows, tokens=np.concatenate(tokens), pairs=np.concatenate(pairs))


def shard_sizes(windows: int) -> IntArray:
    """Windows of every shard, (shards,)."""
    sizes = np.full(-(-windows // SHARD_WINDOWS), SHARD_WINDOWS)
    sizes[-1] = windows - SHARD_WINDOWS * (len(sizes) - 1)
    return sizes


def extract_shares(operations: FloatArray, groups: Sequence[range], *, processes: int) -> ProcessLoads:
    """Extraction: each process computes every P-th group of shards, and none waits before the end.

    Args:
        operations: (shards,) of each shard.
        groups: groups of shards that are computed together.
        processes: how many.
    """
    work = np.add.reduceat(operations, [group.start for group in groups])
    shares = np.bincount(np.arange(len(work)) % processes, weights=work, minlength=processes)
    return ProcessLoads(float(shares.mean()), float(shares.max()))


def step_shares(
    sample: IntArray, windows: int, operations_of: OperationsOf, *, batch: int, processes: int
) -> ProcessLoads:
    """Tuning: of every batch each process takes every P-th window, and all wait for the slowest in every step.

    Args:
        sample: lengths to draw from.
        windows: windows of an epoch; of more than `STEP_WINDOWS`, a part stands for all.
        operations_of: what a window costs.
        batch: windows per step, of all processes together.
        processes: how many.
    """
    drawn = min(windows, max(STEP_WINDOWS, 8 * batch))
    lengths = np.random.default_rng(_SEED).choice(sample, size=drawn)
    operations = operations_of(lengths)
    mean, slowest = 0.0, 0.0
    for rows in length_batches(lengths, batch, seed=_SEED):
        shares = np.bincount(np.arange(len(rows)) % processes, weights=operations[rows], minlength=processes)
        mean += float(shares.mean())
        slowest += float(shares.max())
    return ProcessLoads(mean * windows / drawn, slowest * windows / drawn)
