"""TaskMix: the training data of several tasks that share an encoder, and the order of their batches."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Literal, Self, assert_never, final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from bertvision.tasks.batches import balanced_rows, length_batches
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import TaskKind
from bertvision.training.data import Forward, TrainBatch, TuneData
from bertvision.training.options import TuneOptions
from bertvision.training.plan import StepPlan

Order = Literal["sequence", "round-robin", "proportional", "temperature"]
"""Order of an epoch's batches: task after task; one of each task in turn; all at random; or at random with small tasks
more often."""

_SEED_STEP = 7_919
"""Distance between the seeds of two passes over a task within one epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How tasks take turns within an epoch, and what of each is learned.

    Attributes:
        order: of the batches.
        temperature: for that order: 1 has steps as there are windows, a large one the same number for every task.
        caps: most windows of a task in an epoch, by the task's name; every epoch draws others.
        balance: draw windows so that every class, and every whole number of a score, is learned equally often.
    """

    order: Order = "sequence"
    temperature: float = 2.0
    caps: Mapping[str, int] = field(default_factory=dict)
    balance: bool = False


@dataclass(frozen=True, slots=True)
class TaskMix:
    """The training data of several tasks: a batch is of one. Rows are the windows of all tasks, one after the other."""

    tasks: Mapping[str, TuneData]
    turns: Turns

    def plan(self, options: TuneOptions) -> "MixPlan":
        """Which windows of which task are learned at which step."""
        return MixPlan(self.tasks, self.turns, options)

    def ready(self, options: TuneOptions, device: torch.device) -> Self:
        """The same with class weights for tasks with classes, if they are asked for."""
        ready = {
            name: data.ready(options, device) if data.task.kind == "labels" else data
            for name, data in self.tasks.items()
        }
        return replace(self, tasks=ready)

    def train_batch(self, rows: IntArray) -> TrainBatch:
        """The batch of some rows; the model takes the name of the task, too."""
        [(name, windows)] = self.split(rows).items()
        train_batch = self.tasks[name].train_batch(windows)

        def compute(model: Forward, tensors: tuple[Tensor, ...]) -> Tensor:
            return train_batch.compute(partial(model, task=name), tensors)

        return TrainBatch(train_batch.tensors, compute, None if train_batch.kind is None else (name, train_batch.kind))

    def split(self, rows: IntArray) -> dict[str, IntArray]:
        """Rows by task, as numbers of its windows; tasks without any are left out."""
        bounds = np.cumsum([0, *(len(data.windows) for data in self.tasks.values())])
        number = np.searchsorted(bounds, rows, side="right") - 1
        names = list(self.tasks)
        return {names[one]: rows[number == one] - bounds[one] for one in np.unique(number).tolist()}


@final
class MixPlan(StepPlan):
    """Batches of one task each, in the order that was asked for."""

    def __init__(self, tasks: Mapping[str, TuneData], turns: Turns, options: TuneOptions) -> None:
        self._turns = turns
        self._tasks = list(tasks.values())
        windows = {name: len(data.windows) for name, data in tasks.items()}
        self._sizes = _capped(windows, turns)  # windows of each task in an epoch
        self._counts = epoch_steps(windows, turns, options.batch)
        super().__init__(options, per_epoch=sum(self._counts))

    @override
    def batches(self, seed: int) -> list[IntArray]:
        bases = np.cumsum([0, *(len(data.windows) for data in self._tasks)])
        by_task = [[rows + base for rows in self._task(n, seed)] for n, base in enumerate(bases[:-1])]
        match self._turns.order:
            case "sequence":
                return [rows for some in by_task for rows in some]
            case "round-robin":
                return [rows for turn in zip_longest(*by_task) for rows in turn if rows is not None]
            case "proportional" | "temperature":
                batches = [rows for some in by_task for rows in some]
                return [batches[number] for number in np.random.default_rng(seed).permutation(len(batches))]
            case _:
                assert_never(self._turns.order)

    def _task(self, number: int, seed: int) -> list[IntArray]:
        """The batches of a task, from as many passes over it as are needed."""
        data = self._tasks[number]
        batches: list[IntArray] = []
        while len(batches) < self._counts[number]:
            rows = self._draw(number, seed)
            batches += [rows[some] for some in length_batches(data.windows.sizes[rows], self._options.batch, seed=seed)]
            seed += _SEED_STEP
        return batches[: self._counts[number]]

    def _draw(self, number: int, seed: int) -> IntArray:
        """The windows of a task that one pass is over."""
        data, size = self._tasks[number], self._sizes[number]
        classes = sampled_classes(data.task.kind, data.windows.targets) if self._turns.balance else None
        if classes is not None:
            return balanced_rows(classes, seed, size)
        rows = np.arange(len(data.windows))
        return rows if size == len(rows) else np.random.default_rng(seed).permutation(rows)[:size]


def epoch_steps(windows: Mapping[str, int], turns: Turns, batch: int) -> list[int]:
    """How many of an epoch's steps each task has, by the number of its windows."""
    sizes = _capped(windows, turns)
    counts = -(-np.array(sizes) // batch)
    if turns.order == "temperature":
        counts = temperature_steps(sizes, int(counts.sum()), turns.temperature)
    listed: list[int] = counts.tolist()
    return listed


def _capped(windows: Mapping[str, int], turns: Turns) -> list[int]:
    return [min(turns.caps.get(name, count), count) for name, count in windows.items()]


def temperature_steps(sizes: list[int], steps: int, temperature: float) -> IntArray:
    """How many of an epoch's steps each task has, (tasks,): shares go with size^(1 / temperature), at least one."""
    raised = np.array(sizes, dtype=np.float64) ** (1.0 / temperature)
    exact = raised / raised.sum() * steps
    counts: IntArray = np.maximum(1, np.floor(exact)).astype(np.int64)
    missing = max(0, steps - int(counts.sum()))
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1  # those that rounding took most from
    return counts


def sampled_classes(kind: TaskKind, targets: IntArray | FloatArray) -> IntArray | None:
    """What sampling is balanced by, (windows,): the class, or the nearest whole number of a score; None: not at all."""
    match kind:
        case "labels":
            return targets.astype(np.int64)
        case "scores":
            return np.rint(targets).astype(np.int64)
        case "tags" | "spans":
            return None
        case _:
            assert_never(kind)
