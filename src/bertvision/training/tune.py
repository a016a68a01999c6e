"""Stage 1: fine-tune the encoder together with its head, with snapshots at fractions of an epoch."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from bertvision.errors import BertVisionError, DivergedError, MisfitError
from bertvision.heads import Head
from bertvision.tasks.examples import IntArray
from bertvision.training.checkpoint import (
    Loss,
    OwnState,
    Progress,
    learning_parameters,
    load_checkpoint,
    random_states,
    save_checkpoint,
)
from bertvision.training.data import TrainBatch, TrainingData
from bertvision.training.decay import decays
from bertvision.training.losses import Losses
from bertvision.training.options import TuneOptions
from bertvision.training.processes import Processes, gather, on_main
from bertvision.training.recorded import GraphMemory, Recorder, backward
from bertvision.training.schedule import rate_factor

LOG_STEPS = 20
"""Steps between two lines of the log; reading the loss synchronises with the GPU, so it is read only then."""

SAVE_SECONDS = 60.0
"""Minimum time between two checkpoints."""


class Watcher(Protocol):
    """Callbacks of `tune_encoder`: log, progress, snapshots. Called in the main process only."""

    def on_begin(self, step: int, total: int) -> None:
        """Called once, with the number of steps done before and in all."""

    def on_step(self, step: int) -> None:
        """Called after every step; a GPU may still be computing it."""

    def on_log(self, step: int, values: dict[str, float]) -> None:
        """Called after the first step, which may compile, every `LOG_STEPS` steps, and before every snapshot.

        `values` holds `loss`, the mean since the last call, and `lr`, the learning rate.
        """

    def on_snapshot(self, fraction: float, step: int) -> float | None:
        """Called at every snapshot, to save it; returns its score on held-out examples (larger is better) or None."""

    def on_saved(self, seconds: float) -> None:
        """Called after every checkpoint, with the time it took."""


def tune_encoder(  # noqa: PLR0913 - what a run depends on, by keyword
    model: nn.Module,
    data: TrainingData,
    options: TuneOptions,
    *,
    run: Path,
    fractions: Sequence[float],
    watcher: Watcher,
    accelerator: Processes,
    rate: float,
    save_every: int | None = None,
) -> Progress:
    """Train to the last step or until early stopping, or resume from the checkpoint in the run's folder.

    All processes call it with the same arguments. The last checkpoint stays; the caller removes it when the results are
    saved.

    Args:
        model: what is trained; it is changed in place.
        data: the training data; its batches fit the model.
        options: epochs, batch size, schedule and so on.
        run: folder for checkpoints.
        fractions: epochs after which snapshots are taken.
        watcher: callbacks.
        accelerator: the processes that train together.
        rate: peak learning rate of the encoder; that of heads is in `options`.
        save_every: steps between checkpoints; None writes one every `SAVE_SECONDS` or so.

    Returns:
        The step of the end, and the best held-out score.

    Raises:
        BertVisionError: the loss is not finite, or a file cannot be written; earlier snapshots are kept.
    """
    plan = data.plan(options)
    stops = plan.snapshot_steps(fractions)
    data = data.ready(options, accelerator.device)
    torch.manual_seed(options.seed + accelerator.process_index)
    optimizer = build_optimizer(model, options, rate)
    progress, loss = _resume(run, model, optimizer, accelerator)
    on_main(accelerator, lambda: watcher.on_begin(progress.step, plan.total))
    tuning = _Tuning(model, data, options, accelerator, optimizer, Losses(accelerator, loss))
    saving = _Saving(run, accelerator, save_every)
    model.train()
    for step, rows in plan.steps_from(progress.step):
        if options.patience is not None and progress.stale >= options.patience:
            break
        factor = rate_factor(step, plan.total, schedule=options.schedule, warmup=options.warmup)
        tuning.step(rows, factor)
        progress = replace(progress, step=step + 1)
        if accelerator.process_index == 0:  # without telling the others, who would have to wait for it at every step
            watcher.on_step(progress.step)
        fraction = stops.get(progress.step)
        if fraction is not None or progress.step == 1 or progress.step % LOG_STEPS == 0:
            values = {"loss": tuning.losses.mean(progress.step), "lr": tuning.rates[0] * factor}
            on_main(accelerator, lambda: watcher.on_log(progress.step, values))  # noqa: B023 - called at once
        if fraction is not None:
            tuning.check_weights(progress.step)
            score = on_main(accelerator, lambda: watcher.on_snapshot(fraction, progress.step))  # noqa: B023 - called at once
            progress = _with_score(progress, score)
            model.train()
        if fraction is not None or saving.due(progress.step):
            seconds = saving.save(progress, tuning)
            on_main(accelerator, lambda: watcher.on_saved(seconds))  # noqa: B023 - called at once
    return progress


def _resume(
    run: Path, model: nn.Module, optimizer: torch.optim.Optimizer, accelerator: Processes
) -> tuple[Progress, Loss]:
    """Load the checkpoint if there is one; the progress is that of all processes, the loss that of this one."""
    mine, many = accelerator.process_index, accelerator.num_processes
    progress, loss = load_checkpoint(run, model, optimizer, process=mine, processes=many) or (Progress(), (0.0, 0))
    steps = gather(accelerator, progress.step)
    if len(set(steps)) > 1:
        raise BertVisionError(f"processes would go on from steps {steps}. All of them must see the folder {run}.")
    return progress, loss


@dataclass(slots=True)
class _Tuning:
    """The state of a run: model, optimiser, running loss, and how gradients are computed on this device."""

    model: nn.Module
    data: TrainingData
    options: TuneOptions
    accelerator: Processes
    optimizer: torch.optim.Optimizer
    losses: Losses
    rates: list[float] = field(init=False)
    backward: Callable[[TrainBatch, float], Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.rates = [group["lr"] for group in self.optimizer.param_groups]
        device = self.accelerator.device
        if self.accelerator.num_processes > 1:  # gradients are exchanged while they are computed
            self.backward = partial(backward, self.accelerator.prepare(self.model), device)
        elif device.type == "cuda":
            self.backward = Recorder(self.model, GraphMemory(device)).backward
        else:
            self.backward = partial(backward, self.model, device)

    def step(self, rows: IntArray, factor: float) -> None:
        """One optimiser step on a batch, with gradient accumulation; learning rates are multiplied by `factor`."""
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        for part in np.array_split(rows, min(self.options.accumulate, len(rows))):
            try:
                self.losses.add(*self._backward(part, len(rows)))
            except torch.OutOfMemoryError:
                raise MisfitError(
                    f"the GPU has no room for {len(part)} windows at once. Snapshots made before are kept; "
                    f"use a smaller --batch or, unless --loss is in-batch, --accumulate {2 * self.options.accumulate}, "
                    "and another --out."
                ) from None
        if self.options.clip:
            values = [value for group in self.optimizer.param_groups for value in group["params"]]
            nn.utils.clip_grad_norm_(values, self.options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _backward(self, part: IntArray, whole: int) -> tuple[Tensor, int]:
        """Backpropagate this process's share of a part of a batch of `whole` rows; the sum and number of losses."""
        # DDP averages the gradients of the processes: with this factor the result is the mean over the batch
        share = self.accelerator.num_processes / whole
        mine = part[self.accelerator.process_index :: self.accelerator.num_processes]
        if not len(mine):  # fewer rows than processes: all must take part, so this one adds a gradient of zero
            mine, share = part[:1], 0.0
        loss = self.backward(self.data.train_batch(mine), share)
        return loss * bool(share), len(mine) * bool(share)

    def check_weights(self, step: int) -> None:
        """Raise if a trained weight is not finite, before it is saved."""
        if not all(bool(value.isfinite().all()) for value in learning_parameters(self.model).values()):
            raise DivergedError(
                f"weights are not finite after step {step}. Snapshots made before are kept; "
                "use a smaller --lr or more --warmup, and another --out."
            )


@dataclass(slots=True)
class _Saving:
    """Decides when a checkpoint is due, and writes it in the main process."""

    run: Path
    accelerator: Processes
    every: int | None
    last: float = field(default_factory=time.monotonic)

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due; the clock of the main process decides for all."""
        if self.every is not None:
            return step % self.every == 0
        return step % LOG_STEPS == 0 and on_main(self.accelerator, lambda: time.monotonic() - self.last > SAVE_SECONDS)

    def save(self, progress: Progress, tuning: _Tuning) -> float:
        """Write a checkpoint with the state of all processes; returns the seconds it took."""
        loss = tuning.losses.peek(progress.step)  # synchronises first, so that the time of steps is not counted
        begin = time.perf_counter()
        tuning.check_weights(progress.step)
        owns = gather(self.accelerator, OwnState(loss, random_states()))
        on_main(self.accelerator, lambda: save_checkpoint(self.run, progress, tuning.model, tuning.optimizer, owns))
        self.last = time.monotonic()
        return time.perf_counter() - begin


def build_optimizer(model: nn.Module, options: TuneOptions, rate: float) -> torch.optim.Optimizer:
    """AdamW with parameter groups by learning rate (heads have `head_lr`) and weight decay (see `decays`)."""
    heads = {id(p) for m in model.modules() if isinstance(m, Head) for p in m.parameters()}
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, value in model.named_parameters():
        if value.requires_grad:
            groups.setdefault((id(value) in heads, decays(name, value)), []).append(value)
    listed = [
        {
            "params": values,
            "lr": options.head_lr if of_head else rate,
            "weight_decay": options.weight_decay if decayed else 0.0,
        }
        for (of_head, decayed), values in sorted(groups.items(), key=lambda item: item[0])
    ]
    return torch.optim.AdamW(listed, fused=True)  # one pass over memory; faster on a CPU, too


def _with_score(progress: Progress, score: float | None) -> Progress:
    """Note a snapshot's score for early stopping; NaN is no improvement, None leaves the progress as it is."""
    if score is None:
        return progress
    if math.isfinite(score) and (progress.best is None or score > progress.best):
        return replace(progress, best=score, stale=0)
    return replace(progress, stale=progress.stale + 1)
