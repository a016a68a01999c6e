"""Stage 1: the encoder learns, with heads on top, and leaves snapshots at fractions of an epoch."""

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
"""Steps between two lines of the log; the loss is looked at only then, so that a GPU never waits for it."""

SAVE_SECONDS = 60.0
"""Least seconds between two checkpoints."""


class Watcher(Protocol):
    """Who follows a run: writes its log, shows its progress. Only the main process calls it."""

    def on_begin(self, step: int, total: int) -> None:
        """Called once, with the steps that were made before, and those of the whole run."""

    def on_step(self, step: int) -> None:
        """Called after every step, of which a GPU may still have some to do."""

    def on_log(self, step: int, values: dict[str, float]) -> None:
        """Called after the first step, which may compile, every `LOG_STEPS`, and before every snapshot.

        With the mean loss since the last time, and the learning rate.
        """

    def on_snapshot(self, fraction: float, step: int) -> float | None:
        """Called at every snapshot; saves and scores it. Returns a held-out score, larger is better, or None."""

    def on_saved(self, seconds: float) -> None:
        """Called after every checkpoint, with the seconds that it took."""


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
    """Tune until the last step, or until it no longer pays; goes on from a checkpoint if the run has one.

    Every process calls it with the same arguments; `accelerator` says which of them it is. The last checkpoint is
    left to the caller, who removes it when the results are safe.

    Raises:
        BertVisionError: the loss is not finite, or something cannot be written; snapshots made so far are kept.
    """
    plan = data.plan(options)
    stops = plan.snapshot_steps(fractions)
    data = data.ready(options, accelerator.device)
    torch.manual_seed(options.seed + accelerator.process_index)
    optimizer = build_optimizer(model, options, rate)
    progress, loss = _continue(run, model, optimizer, accelerator)
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
            progress = _judge(progress, score)
            model.train()
        if fraction is not None or saving.due(progress.step):
            seconds = saving.save(progress, tuning)
            on_main(accelerator, lambda: watcher.on_saved(seconds))  # noqa: B023 - called at once
    return progress


def _continue(
    run: Path, model: nn.Module, optimizer: torch.optim.Optimizer, accelerator: Processes
) -> tuple[Progress, Loss]:
    """Where the run goes on, the same in every process."""
    mine, many = accelerator.process_index, accelerator.num_processes
    progress, loss = load_checkpoint(run, model, optimizer, process=mine, processes=many) or (Progress(), (0.0, 0))
    steps = gather(accelerator, progress.step)
    if len(set(steps)) > 1:
        raise BertVisionError(f"processes would go on from steps {steps}. All of them must see the folder {run}.")
    return progress, loss


@dataclass(slots=True)
class _Tuning:
    """All that a step needs and changes."""

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
        """Learn a batch, part by part, with the learning rates times a factor."""
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
        """Add this process's gradient of a part to those of its batch of `whole` rows; the sum and number of losses."""
        share = self.accelerator.num_processes / whole  # gradients are averaged: this gives the mean of the batch
        mine = part[self.accelerator.process_index :: self.accelerator.num_processes]
        if not len(mine):  # fewer windows than processes: this one joins the others with a gradient of zero
            mine, share = part[:1], 0.0
        loss = self.backward(self.data.train_batch(mine), share)
        return loss * bool(share), len(mine) * bool(share)

    def check_weights(self, step: int) -> None:
        """Refuse to keep weights that are not finite."""
        if not all(bool(value.isfinite().all()) for value in learning_parameters(self.model).values()):
            raise DivergedError(
                f"weights are not finite after step {step}. Snapshots made before are kept; "
                "use a smaller --lr or more --warmup, and another --out."
            )


@dataclass(slots=True)
class _Saving:
    """When there is a checkpoint, and who writes it."""

    run: Path
    accelerator: Processes
    every: int | None
    last: float = field(default_factory=time.monotonic)

    def due(self, step: int) -> bool:
        """Whether to make one now: all processes agree, whatever their clocks say."""
        if self.every is not None:
            return step % self.every == 0
        return step % LOG_STEPS == 0 and on_main(self.accelerator, lambda: time.monotonic() - self.last > SAVE_SECONDS)

    def save(self, progress: Progress, tuning: _Tuning) -> float:
        """Let the main process write down what all of them have; the seconds that takes."""
        loss = tuning.losses.look(progress.step)  # waits for the steps, whose time is theirs
        begin = time.perf_counter()
        tuning.check_weights(progress.step)
        owns = gather(self.accelerator, OwnState(loss, random_states()))
        on_main(self.accelerator, lambda: save_checkpoint(self.run, progress, tuning.model, tuning.optimizer, owns))
        self.last = time.monotonic()
        return time.perf_counter() - begin


def build_optimizer(model: nn.Module, options: TuneOptions, rate: float) -> torch.optim.Optimizer:
    """AdamW with a learning rate of their own for heads, and weight decay where it applies."""
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
    return torch.optim.AdamW(listed, fused=True)  # one look at all numbers, on a CPU, too


def _judge(progress: Progress, score: float | None) -> Progress:
    """Count how long there has been no better score; one that is not defined is not better."""
    if score is None:
        return progress
    if math.isfinite(score) and (progress.best is None or score > progress.best):
        return replace(progress, best=score, stale=0)
    return replace(progress, stale=progress.stale + 1)
