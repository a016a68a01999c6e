"""TrainingData: the batches and losses that an encoder is trained on; here of one task."""

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
"""A model, or Accelerate's wrapper of it; arguments and result are those that the training data expects."""


@dataclass(frozen=True, slots=True)
class TrainBatch:
    """A training batch in a form that a CUDA graph can be captured from.

    Attributes:
        tensors: the inputs, on the CPU; or on the model's device, then always at the same address for the same kind and
            shapes.
        compute: model, and the inputs on its device → the loss of every row, (rows,).
        kind: batches of one kind with equal shapes can share a CUDA graph; None if the batch cannot be captured.
    """

    tensors: tuple[Tensor, ...]
    compute: Callable[[Any, tuple[Tensor, ...]], Tensor]
    kind: Hashable = None

    def losses(self, model: Forward, device: torch.device) -> Tensor:
        """The loss of every row, (rows,)."""
        return self.compute(model, tuple(move(tensor, device) for tensor in self.tensors))


class TrainingData(Protocol):
    """What `tune_encoder` trains on: numbered rows, and the loss of any of them."""

    def plan(self, options: TuneOptions) -> StepPlan:
        """The rows of every step's batch."""

    def ready(self, options: TuneOptions, device: torch.device) -> Self:
        """A copy with everything that depends on options or device, such as class weights.

        Raises:
            BertVisionError: an option does not suit this data.
        """

    def train_batch(self, rows: IntArray) -> TrainBatch:
        """The batch of these rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneData:
    """Windows of one task, with their targets.

    Attributes:
        task: its kind chooses the loss.
        windows: training windows with targets.
        pool: how tokens are pooled, for labels, tags and scores.
        packed: whether windows are packed end to end.
        pad: number of the padding token.
        bf16: whether to compute in bfloat16; weights stay as they are.
        even: whether lengths are rounded up, so that few shapes occur and a CUDA graph can be captured for each.
        weights: (classes,) factor of the loss of each class's examples; None leaves all losses as they are.
        teacher: outputs of a teacher for the windows; None trains on the targets alone.
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
        """The loss of every window, (rows,); the model returns outputs and mask."""
        inputs = len(form.tensors)
        targets, *soft = tensors[inputs:]
        with torch.autocast(targets.device.type, dtype=torch.bfloat16, enabled=self.bf16):
            outputs, mask = model(form.with_tensors(tensors[:inputs]))
        losses = example_losses(self.task, outputs, mask, targets, pool=self.pool, class_weights=self.weights)
        if self.teacher is None:
            return losses
        counts = None if self.weights is None else self.weights[targets]
        return self.teacher.losses(losses, outputs, mask, SoftTargets(*soft), pool=self.pool, counts=counts)


def class_weights(task: Task, targets: IntArray | FloatArray) -> Tensor:
    """Balanced class weights, (classes,): all classes have the same total weight, and the mean over the examples is 1.

    Raises:
        MisfitError: the task has no classes.
    """
    if task.kind != "labels":
        raise MisfitError(f"--class-weights is for tasks with one label per text; {task.name} asks for {task.kind}.")
    counts = np.bincount(targets.astype(np.int64), minlength=len(task.labels))
    weights = counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1))
    return torch.tensor(weights, dtype=torch.float32)
