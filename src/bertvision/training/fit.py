"""Stage 2: train many heads in one pass over the states, each with the result that it would have alone."""

import math
import time
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertvision.encoder.batch import move
from bertvision.encoder.states import HiddenStates
from bertvision.errors import MisfitError
from bertvision.heads import Head
from bertvision.heads.random_stream import RandomStream
from bertvision.objectives import Pool, example_losses
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task
from bertvision.training.checkpoint import OwnState, Progress, load_checkpoint, random_states, save_checkpoint
from bertvision.training.data import TrainBatch
from bertvision.training.plan import Plan
from bertvision.training.prefetch import prefetch
from bertvision.training.recorded import GraphMemory, Recorder, StaticInputs, backward
from bertvision.training.schedule import rate_factor
from bertvision.training.states import StateBatch
from bertvision.training.trainee import Trainee, trainees_as_module
from bertvision.training.tune import LOG_STEPS, SAVE_SECONDS

MAX_RECORDED_BYTES = 2**30
"""Bytes of a batch's states above which nothing is recorded: such a batch keeps a GPU busy by itself."""

Backward = Callable[[TrainBatch, float], Tensor]
"""Backpropagates the sum of a batch's losses times a factor, and returns the sum without the factor."""


class States(Protocol):
    """A source of hidden states: a frozen encoder, a store, or memory."""

    def batch(self, rows: IntArray) -> StateBatch:
        """The states of the windows with these numbers, in that order."""


class FitWatcher(Protocol):
    """Callbacks of `fit_trainees`: logs, progress, validation. Heads have numbers, in the order of the trainees."""

    def on_begin(self, step: int, total: int) -> None:
        """Called once, with the number of steps done before and in all; after a resume it drops dropped heads again."""

    def on_step(self, step: int) -> None:
        """Called after every step; a GPU may still be computing it."""

    def on_log(self, step: int, losses: Mapping[int, float]) -> None:
        """Called every `LOG_STEPS` steps with the mean loss since the last call of every head still in training."""

    def on_drop(self, number: int, step: int) -> None:
        """Called after a head was dropped because its loss is not finite."""

    def on_validate(self, fraction: float, step: int) -> None:
        """Called at the fractions of an epoch given to `fit_trainees`; scores heads, keeps the best, may drop some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitData:
    """The training data of heads.

    Attributes:
        task: its kind chooses the loss.
        targets: of all windows; see `example_losses`.
        states: of all windows.
        pool: how tokens are pooled, for labels, tags and scores.
        device: of the heads.
        batch: batch size of a head's step, in windows.
        bf16: whether heads compute in bfloat16; weights stay float32.
        class_weights: (classes,) factor of the loss of each class's examples.
        ahead: whether a thread prepares the next batch meanwhile; for states that are read, not computed.
    """

    task: Task
    targets: IntArray | FloatArray
    states: States
    pool: Pool
    device: torch.device
    batch: int
    bf16: bool = False
    class_weights: Tensor | None = None
    ahead: bool = False

    def train_batch(self, batch: StateBatch, targets: Tensor, *, kind: Hashable = None) -> TrainBatch:
        """A training batch of these windows; `kind` is that of `TrainBatch`."""
        hidden = batch.hidden
        context = () if hidden.context is None else (hidden.context,)
        return TrainBatch((hidden.states, hidden.mask, targets, *context), partial(self._losses, batch, targets), kind)

    def _losses(self, batch: StateBatch, targets: Tensor, head: Head, _places: tuple[Tensor, ...]) -> Tensor:
        """The loss of every window, (windows,); the tensors are in `batch` and `targets` already."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            outputs, mask = batch.read(head, None if self.task.kind == "spans" else self.pool)
        return example_losses(self.task, outputs, mask, targets, pool=self.pool, class_weights=self.class_weights)


def fit_trainees(  # noqa: PLR0913 - what a fit depends on, by keyword
    trainees: Sequence[Trainee],
    data: FitData,
    plan: Plan,
    *,
    run: Path,
    fractions: Sequence[float],
    watcher: FitWatcher,
) -> None:
    """Train all heads to the last step, or resume from the checkpoint in the run's folder.

    The last checkpoint stays; the caller removes it when the results are saved.

    Args:
        trainees: the heads.
        data: their training data.
        plan: the batches, step by step.
        run: folder for checkpoints.
        fractions: epochs after which `watcher.on_validate` is called.
        watcher: callbacks.

    Raises:
        BertVisionError: a file cannot be written, or the GPU has too little memory.
    """
    stops = plan.snapshot_steps(fractions)
    fitting = _Fitting(list(trainees), data, plan)
    begin = fitting.load(run)
    watcher.on_begin(begin, plan.total)
    saved = time.monotonic()
    with closing(fitting.batches(begin)) as batches:
        for step, batch, rows in batches:
            try:
                fitting.learn(batch, rows, step)
            except torch.OutOfMemoryError:
                raise MisfitError(
                    f"the GPU has no room for {len(rows)} windows and what {len(trainees)} heads make of them. Use a "
                    "smaller --batch or fewer --heads, and another --out."
                ) from None
            done = step + 1
            watcher.on_step(done)
            if done % LOG_STEPS == 0 or done in stops:
                fitting.log(done, watcher)
            if done in stops:
                watcher.on_validate(stops[done], done)
            if done in stops or (done % LOG_STEPS == 0 and time.monotonic() - saved > SAVE_SECONDS):
                fitting.save(run, done)
                saved = time.monotonic()
            if all(trainee.failure is not None for trainee in trainees):
                return


def try_step(trainee: Trainee, data: FitData, plan: Plan, batch: StateBatch, rows: IntArray) -> None:
    """Make one training step, to time it; the head is changed and must be thrown away."""
    _Fitting([trainee], data, plan).learn(batch, rows, 0)


@final
class _Fitting:
    """The state of a fit: heads, optimiser, gradients that are still accumulated, CUDA graphs."""

    def __init__(self, trainees: list[Trainee], data: FitData, plan: Plan) -> None:
        self.trainees = trainees
        self.data = data
        self.plan = plan
        groups = [(trainee, group) for trainee in trainees for group in trainee.groups()]
        self.owners = [trainee for trainee, _ in groups]
        # one optimiser for all heads: AdamW treats every tensor by itself, and one fused call launches fewer kernels
        self.optimizer = torch.optim.AdamW([group for _, group in groups], fused=True)
        self.accumulated: dict[nn.Parameter, Tensor] = {}  # gradients of heads that do not step now
        self.static: StaticInputs | None = None
        adders: list[Backward] = [partial(backward, trainee.head, data.device) for trainee in trainees]
        if data.device.type == "cuda":
            self.static, memory = StaticInputs(), GraphMemory(data.device)
            adders = [Recorder(trainee.head, memory).backward for trainee in trainees]
        self.sharing: dict[bytes, list[tuple[Trainee, Backward]]] = {}  # heads with the same training windows
        for trainee, add in zip(trainees, adders, strict=True):
            self.sharing.setdefault(b"" if trainee.rows is None else trainee.rows.tobytes(), []).append((trainee, add))

    def batches(self, begin: int) -> Generator[tuple[int, StateBatch, IntArray]]:
        """Every step from `begin` on with its states."""
        steps = self.plan.steps_from(begin)
        yield from prefetch(self._read, steps) if self.data.ahead else map(self._read, steps)

    def _read(self, planned: tuple[int, IntArray]) -> tuple[int, StateBatch, IntArray]:
        step, rows = planned
        with torch.no_grad():  # here, for it holds for one thread only
            return step, self.data.states.batch(rows), rows

    def learn(self, batch: StateBatch, rows: IntArray, step: int) -> None:
        """One training step of all heads on one batch."""
        targets = move(torch.from_numpy(self.data.targets[rows]), self.data.device)
        whole = self._train_batch(batch, targets), len(rows)
        for members in self.sharing.values():
            learning = [(trainee, add) for trainee, add in members if trainee.failure is None]
            if learning:
                chosen = learning[0][0].rows
                train_batch, count = whole if chosen is None else self._some(chosen[rows], batch, targets)
                for trainee, add in learning:
                    with trainee.watch:
                        self._backpropagate(trainee, add, train_batch, count)
                        self._clip_or_accumulate(trainee, step)
        for owner, group in zip(self.owners, self.optimizer.param_groups, strict=True):
            spec = owner.spec
            factor = rate_factor(step, self.plan.total, schedule=spec.schedule, warmup=spec.warmup)
            group["lr"] = spec.lr * factor
        self.optimizer.step()  # parameters without a gradient stay as they are
        self.optimizer.zero_grad(set_to_none=True)
        for value, gradient in self.accumulated.items():
            value.grad = gradient
        self.accumulated.clear()

    def _backpropagate(self, trainee: Trainee, add: Backward, train_batch: TrainBatch, count: int) -> None:
        """Add the gradient of a head's mean loss; nothing if none of its `count` windows is in the batch."""
        if count:
            with trainee.stream:
                trainee.add(add(train_batch, 1 / self.data.batch), count)

    def _train_batch(self, batch: StateBatch, targets: Tensor) -> TrainBatch:
        """All windows of a batch; on a GPU in the static inputs of CUDA graphs, unless the batch is large."""
        if self.static is None or batch.padded_bytes > MAX_RECORDED_BYTES:
            return self.data.train_batch(batch, targets)
        whole = batch.padded
        tensors = [whole.states, whole.mask, targets, *(() if whole.context is None else (whole.context,))]
        states, mask, targets, *context = self.static.put(tensors)
        static = HiddenStates(states, mask, context=context[0] if context else None)
        return self.data.train_batch(StateBatch(static, lowest=batch.lowest), targets, kind="static")

    def _some(self, chosen: NDArray[np.bool_], batch: StateBatch, targets: Tensor) -> tuple[TrainBatch, int]:
        """The chosen windows of a batch, and their number."""
        places = move(torch.from_numpy(np.flatnonzero(chosen)), self.data.device)
        return self.data.train_batch(batch.only(places), targets[places]), len(places)

    def _clip_or_accumulate(self, trainee: Trainee, step: int) -> None:
        """Clip the gradient of a head that steps now; hide that of any other head from the optimiser."""
        gradients = {value: value.grad for value in trainee.head.parameters() if value.grad is not None}
        if (step + 1) % trainee.every and step + 1 < self.plan.total:
            self.accumulated |= gradients
            for value in gradients:
                value.grad = None
        elif trainee.spec.clip and gradients:
            nn.utils.clip_grad_norm_(list(gradients), trainee.spec.clip)

    def log(self, step: int, watcher: FitWatcher) -> None:
        """Report the losses since the last call; drop heads whose loss is not finite."""
        losses: dict[int, float] = {}
        for number, trainee in enumerate(self.trainees):
            loss = trainee.mean_loss() if trainee.failure is None else None
            if loss is not None and not math.isfinite(loss):
                trainee.drop(f"its loss was {loss} at step {step}")
                watcher.on_drop(number, step)
            elif loss is not None:
                losses[number] = loss
        watcher.on_log(step, losses)

    def _streams(self) -> dict[str, RandomStream]:
        return {str(number): trainee.stream for number, trainee in enumerate(self.trainees)}

    def save(self, run: Path, step: int) -> None:
        """Write a checkpoint from which a killed fit can be resumed."""
        owns = [OwnState((0.0, 0), random_states())]
        save_checkpoint(run, Progress(step), trainees_as_module(self.trainees), self.optimizer, owns, self._streams())

    def load(self, run: Path) -> int:
        """Load the checkpoint if there is one; returns the number of steps done."""
        found = load_checkpoint(run, trainees_as_module(self.trainees), self.optimizer, streams=self._streams())
        return found[0].step if found is not None else 0
