"""Plans: the batch of every training step, and the steps after which there is a snapshot."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import IntArray
from bertvision.training.options import TuneOptions


def total_steps(epochs: float, per_epoch: int) -> int:
    """Steps of a whole run: one at least."""
    return max(1, round(epochs * per_epoch))


class StepPlan(ABC):
    """The batches of a run, determined by the seed; a run that resumes at any step gets the same ones.

    Attributes:
        per_epoch: steps of one pass over the data.
        total: steps of the whole run.
    """

    def __init__(self, options: TuneOptions, *, per_epoch: int) -> None:
        self._options = options
        self.per_epoch = per_epoch
        self.total = total_steps(options.epochs, per_epoch)

    @abstractmethod
    def batches(self, seed: int) -> list[IntArray]:
        """The `per_epoch` batches of an epoch, in order; every epoch has a seed of its own."""

    def epoch(self, number: int) -> list[IntArray]:
        """The batches of an epoch; epochs are numbered from 0."""
        return self.batches(self._options.seed * 1_000_003 + number)

    def steps_from(self, begin: int) -> Iterator[tuple[int, IntArray]]:
        """The number and the batch of every step from `begin` on."""
        epoch, batches = -1, []
        for step in range(begin, self.total):
            if step // self.per_epoch != epoch:
                epoch = step // self.per_epoch
                batches = self.epoch(epoch)
            yield step, batches[step % self.per_epoch]

    def snapshot_steps(self, fractions: Sequence[float], *, option: str = "--snapshots") -> dict[int, float]:
        """Fractions of an epoch by the step after which each snapshot is taken.

        Args:
            fractions: epochs, such as 0.5.
            option: name of the option, for messages.

        Raises:
            BertVisionError: a fraction is not within the run, or two of them fall on one step.
        """
        stops: dict[int, float] = {}
        for fraction in fractions:
            step = max(1, round(fraction * self.per_epoch)) if math.isfinite(fraction) else 0
            if not fraction > 0 or not 1 <= step <= self.total:
                raise BertVisionError(
                    f"{option} has {fraction:g}; more than 0 and at most the {self._options.epochs:g} epochs of the "
                    "run is expected."
                )
            if step in stops:
                raise BertVisionError(
                    f"{option} {stops[step]:g} and {fraction:g} fall on the same step {step} of {self.per_epoch} "
                    "per epoch. Leave one out, or use a smaller --batch."
                )
            stops[step] = fraction
        return stops


@final
class Plan(StepPlan):
    """Every window once per epoch."""

    def __init__(self, lengths: IntArray, options: TuneOptions, *, groups: IntArray | None = None) -> None:
        """Plan a run.

        Args:
            lengths: (windows,) tokens of each.
            options: epochs, batch and seed.
            groups: (windows,) windows of different groups never stand in one batch; None makes one group of all.
        """
        self._lengths = lengths
        self._groups = np.zeros_like(lengths) if groups is None else groups
        sizes = np.unique(self._groups, return_counts=True)[1].tolist()
        super().__init__(options, per_epoch=sum(math.ceil(size / options.batch) for size in sizes))

    @override
    def batches(self, seed: int) -> list[IntArray]:
        groups = [np.flatnonzero(self._groups == number) for number in np.unique(self._groups)]
        batches = [
            rows[some]
            for rows in groups
            for some in length_batches(self._lengths[rows], self._options.batch, seed=seed)
        ]
        if len(groups) == 1:
            return batches  # in random order already
        return [batches[number] for number in np.random.default_rng(seed).permutation(len(batches))]
