"""TrainingData: what an encoder learns from, be it one task, several, or triplets, and what a batch of it costs."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from bertvision.encoder.batch import TokenBatch, move, token_batch
from bertvision.errors import MisfitError
from bertvision.objectives import Pool, example_losses
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan, StepPlan
from bertvision.training.teacher import SoftTargets, TeacherTargets

Forward = Callable[..., Any]
"""A model, or what Accelerate wraps around it; training data knows what its own takes and gives."""


@dataclass(frozen=True, slots=True)
class TrainBatch:
    """A batch to learn from.

    Attributes:
        tensors: all that changes from batch to batch, on the CPU; or on the model's device, those of one kind and shape
            always at the same places.
        compute: model and these tensors on its device → the loss of every row, (rows,).
        kind: two of one kind and of like shapes are computed by the same steps; None is like no other.
    """

    tensors: tuple[Tensor, ...]
    compute: Callable[[Any, tuple[Tensor, ...]], Tensor]
    kind: Hashable = None

    def losses(self, model: Forward, device: torch.device) -> Tensor:
        """The loss of every row, (rows,)."""
        return self.compute(model, tuple(move(tensor, device) for tensor in self.tensors))


class TrainingData(Protocol):
    """What is learned from; rows are those of its plan."""

    def plan(self, options: TuneOptions) -> StepPlan:
        """Which rows are learned at which step."""

    def ready(self, options: TuneOptions, device: torch.device) -> Self:
        """The same with what depends on options and device.

        Raises:
            BertVisionError: the options do not fit.
        """

    def train_batch(self, rows: IntArray) -> TrainBatch:
        """The batch of some rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneData:
    """Windows of one task, with their targets.

    Attributes:
        task: what is asked.
        windows: training windows with targets.
        pool: which row counts for labels, tags and scores.
        packed: whether windows are packed end to end.
        pad: number of the padding token.
        bf16: whether to compute in bfloat16; weights stay as they are.
        even: whether there is a little more padding, and so few shapes occur that each can be recorded.
        weights: (classes,) how much an example of each class counts; None lets every example count the same.
        teacher: what a teacher says of the windows; None has none.
    """

    task: Task
    windows: Windows
    pool: Pool
    packed: bool
    pad: int
    bf16: bool = False
    even: bool = False
    weights: Tensor | None = None
    teacher: TeacherTargets | None = None

    def plan(self, options: TuneOptions) -> StepPlan:
        """Every window once per epoch."""
        return Plan(self.windows.sizes, options)

    def ready(self, options: TuneOptions, device: torch.device) -> Self:
        """The same with class weights, if they are asked for.

        Raises:
            MisfitError: the task has no classes.
        """
        if not options.class_weights:
            return self
        return replace(self, weights=class_weights(self.task, self.windows.targets).to(device))

    def train_batch(self, rows: IntArray) -> TrainBatch:
        """The batch of some windows."""
        batch = token_batch(self.windows, rows, packed=self.packed, pad=self.pad, even=self.even)
        tensors = [*batch.tensors, torch.from_numpy(self.windows.targets[rows])]
        if self.teacher is not None:
            soft = self.teacher.batch(rows, batch.longest)
            tensors += [soft.outputs, soft.share]
        kind = (batch.packed, batch.full, batch.longest) if self.even else None
        return TrainBatch(tuple(tensors), partial(self._losses, batch), kind)

    def _losses(self, form: TokenBatch, model: Forward, tensors: tuple[Tensor, ...]) -> Tensor:
        """The loss of every window, (rows,); the model gives outputs and mask."""
        many = len(form.tensors)
        targets, *soft = tensors[many:]
        with torch.autocast(targets.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            outputs, mask = model(form.with_tensors(tensors[:many]))
        losses = example_losses(self.task, outputs, mask, targets, pool=self.pool, class_weights=self.weights)
        if self.teacher is None:
            return losses
        counts = None if self.weights is None else self.weights[targets]
        return self.teacher.losses(losses, outputs, mask, SoftTargets(*soft), pool=self.pool, counts=counts)


def class_weights(task: Task, targets: IntArray | FloatArray) -> Tensor:
    """How much an example of each class counts, (classes,): all classes together the same, the mean over examples 1.

    Raises:
        MisfitError: the task has no classes.
    """
    if task.kind != "labels":
        raise MisfitError(f"--class-weights is for tasks with one label per text; {task.name} asks for {task.kind}.")
    counts = np.bincount(targets.astype(np.int64), minlength=len(task.labels))
    weights = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return torch.tensor(weights, dtype=torch.float32)
