"""TaskMix: multitask training data on a shared encoder, and the order of the tasks' batches."""

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
"""Order of an epoch's batches: task by task; one of each task in turn; shuffled; or shuffled, with batches of small
tasks repeated (temperature sampling)."""

_SEED_STEP = 7_919
"""Distance between the seeds of two passes over a task within one epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How the batches of several tasks are drawn and ordered within an epoch.

    Attributes:
        order: of the batches.
        temperature: T of the order `temperature`: a task's share of the steps is proportional to size^(1 / T).
        caps: most windows of a task in an epoch, by the task's name; every epoch draws others.
        balance: whether to draw windows so that all classes, or all rounded scores, are equally frequent.
    """

    order: Order = "sequence"
    temperature: float = 2.0
    caps: Mapping[str, int] = field(default_factory=dict)
    balance: bool = False


@dataclass(frozen=True, slots=True)
class TaskMix:
    """The training data of several tasks; every batch is of one task. Rows number the windows of all tasks in order."""

    tasks: Mapping[str, TuneData]
    turns: Turns

    def plan(self, options: TuneOptions) -> "MixPlan":
        """The rows of every step's batch."""
        return MixPlan(self.tasks, self.turns, options)

    def ready(self, options: TuneOptions, device: torch.device) -> Self:
        """A copy with class weights for tasks with classes, if `options` asks for them."""
        ready = {
            name: data.ready(options, device) if data.task.kind == "labels" else data
            for name, data in self.tasks.items()
        }
        return replace(self, tasks=ready)

    def train_batch(self, rows: IntArray) -> TrainBatch:
        """The batch of these rows, which must be of one task; the model is called with the task's name, too."""
        [(name, windows)] = self.split(rows).items()
        train_batch = self.tasks[name].train_batch(windows)

        def compute(model: Forward, tensors: tuple[Tensor, ...]) -> Tensor:
            return train_batch.compute(partial(model, task=name), tensors)

        return TrainBatch(train_batch.tensors, compute, None if train_batch.kind is None else (name, train_batch.kind))

    def split(self, rows: IntArray) -> dict[str, IntArray]:
        """The rows of every task that has any, converted to numbers of its windows."""
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
        """The batches of a task in one epoch, from as many passes over its windows as needed."""
        data = self._tasks[number]
        batches: list[IntArray] = []
        while len(batches) < self._counts[number]:
            rows = self._draw(number, seed)
            batches += [rows[some] for some in length_batches(data.windows.sizes[rows], self._options.batch, seed=seed)]
            seed += _SEED_STEP
        return batches[: self._counts[number]]

    def _draw(self, number: int, seed: int) -> IntArray:
        """The windows of a task in one pass: all, a random sample, or a sample balanced by class."""
        data, size = self._tasks[number], self._sizes[number]
        classes = sampled_classes(data.task.kind, data.windows.targets) if self._turns.balance else None
        if classes is not None:
            return balanced_rows(classes, seed, size)
        rows = np.arange(len(data.windows))
        return rows if size == len(rows) else np.random.default_rng(seed).permutation(rows)[:size]


def epoch_steps(windows: Mapping[str, int], turns: Turns, batch: int) -> list[int]:
    """The number of steps of each task in an epoch.

    Args:
        windows: number of windows of each task, by name.
        turns: order and caps.
        batch: batch size.
    """
    sizes = _capped(windows, turns)
    counts = -(-np.array(sizes) // batch)
    if turns.order == "temperature":
        counts = temperature_steps(sizes, int(counts.sum()), turns.temperature)
    listed: list[int] = counts.tolist()
    return listed


def _capped(windows: Mapping[str, int], turns: Turns) -> list[int]:
    return [min(turns.caps.get(name, count), count) for name, count in windows.items()]


def temperature_steps(sizes: list[int], steps: int, temperature: float) -> IntArray:
    """Divide an epoch's steps among tasks, (tasks,), in proportion to size^(1 / temperature), at least one each."""
    raised = (np.array(sizes) / max(sizes)) ** (1.0 / temperature)  # of sizes themselves it could be infinite
    exact = raised / raised.sum() * steps
    counts: IntArray = np.maximum(1, np.floor(exact)).astype(np.int64)
    missing = max(0, steps - int(counts.sum()))
    counts[np.argsort(counts - exact, kind="stable")[:missing]] += 1  # largest remainders first
    return counts


def sampled_classes(kind: TaskKind, targets: IntArray | FloatArray) -> IntArray | None:
    """The class by which sampling is balanced, (windows,): the label, or the rounded score; None for other kinds."""
    match kind:
        case "labels":
            return targets.astype(np.int64)
        case "scores":
            return np.rint(targets).astype(np.int64)
        case "tags" | "spans":
            return None
        case _:
            assert_never(kind)
