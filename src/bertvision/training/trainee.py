"""Trainee: one of many heads in training on the same states, with its own random state, loss and timer."""

import math
import time
from dataclasses import dataclass, field
from typing import final, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertvision.heads import Head, HeadOptions, HeadShape, build_head
from bertvision.heads.random_stream import RandomStream
from bertvision.training.decay import decays
from bertvision.training.options import LARGEST_SEED
from bertvision.training.schedule import LARGEST_RATE, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSpec:
    """A head and its training options.

    Attributes:
        head: its name.
        options: of the head; see `build_head`.
        lr: peak learning rate.
        schedule: learning rate schedule after the warm-up.
        warmup: share of the steps in which the learning rate rises.
        weight_decay: of all weights except biases, norms and mixing weights.
        clip: largest gradient norm; 0 turns clipping off.
        seed: of initial weights and dropout.
        fraction: share of the training examples it is trained on; smaller shares are subsets of larger ones.
    """

    head: str
    options: HeadOptions = field(default_factory=dict)
    lr: float = 1e-3
    schedule: Schedule = "linear"
    warmup: float = 0.06
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0
    fraction: float = 1.0

    def problems(self) -> list[str]:
        """One message for every option with an invalid value."""
        listed = []
        if not 0.0 < self.fraction <= 1.0:
            listed.append(f"--fraction is {self.fraction:g}, more than 0 and at most 1 is expected")
        if self.seed < 0:
            listed.append(f"--seed is {self.seed}, at least 0 is expected")
        if self.seed > LARGEST_SEED:
            listed.append(f"--seed is {self.seed}, at most {LARGEST_SEED} is expected")
        if not 0.0 < self.lr < LARGEST_RATE:
            listed.append(f"--lr is {self.lr:g}, more than 0 and less than {LARGEST_RATE:g} is expected")
        if self.schedule not in get_args(Schedule):
            listed.append(f"--schedule is {self.schedule}, one of {', '.join(get_args(Schedule))} is expected")
        if not 0.0 <= self.warmup < 1.0:
            listed.append(f"--warmup is {self.warmup:g}, at least 0 and less than 1 is expected")
        for name, value in (("--weight-decay", self.weight_decay), ("--clip", self.clip)):
            if not 0.0 <= value < math.inf:
                listed.append(f"{name} is {value:g}, at least 0 is expected")
        return listed


@final
class Trainee:
    """A head in training.

    Attributes:
        spec: its options.
        head: the head.
        stream: random state of its initial weights and of its dropout.
        rows: (windows,) True for its training windows; None if it is trained on all.
        every: batches per optimiser step (gradient accumulation): a head trained on a tenth of the examples steps every
            ten batches, so that its steps have about as many examples as those of the other heads.
        watch: time spent on this head alone.
        failure: why it was dropped; None while it is in training.
    """

    def __init__(
        self, spec: HeadSpec, shape: HeadShape, *, device: torch.device, rows: NDArray[np.bool_] | None = None
    ) -> None:
        self.spec = spec
        self.stream = RandomStream(spec.seed, device)
        with self.stream:
            self.head: Head = build_head(spec.head, shape, spec.options)
        self.head.to(device).train()
        self.rows = rows
        self.every = 1 if rows is None else max(1, round(len(rows) / rows.sum()))
        self.watch = Stopwatch(device)
        self.failure: str | None = None
        self._sum = torch.zeros((), device=device)
        self._count = 0

    def groups(self) -> list[dict[str, object]]:
        """Its parameter groups for an optimiser, with and without weight decay."""
        split: dict[bool, list[nn.Parameter]] = {True: [], False: []}
        for name, value in self.head.named_parameters():
            split[decays(name, value)].append(value)
        return [
            {"params": values, "lr": self.spec.lr, "weight_decay": self.spec.weight_decay if decayed else 0.0}
            for decayed, values in split.items()
            if values
        ]

    def add(self, loss: Tensor, count: int) -> None:
        """Add the summed loss of `count` windows to the running sum, which stays on the device."""
        self._sum += loss
        self._count += count

    def mean_loss(self) -> float | None:
        """Mean loss over the windows since the last call; None if there were none."""
        mean = float(self._sum) / self._count if self._count else None
        self._sum.zero_()
        self._count = 0
        return mean

    def drop(self, reason: str) -> None:
        """Stop its training, and say why; the other heads continue."""
        self.failure = reason
        for value in self.head.parameters():
            value.grad = None  # without a gradient the optimiser no longer changes it; checkpoints still hold it


@final
class Stopwatch:
    """Total seconds spent inside `with watch:`; for a GPU measured by CUDA events, without synchronising."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._seconds = 0.0
        self._begin = 0.0
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def __enter__(self) -> None:
        if self._cuda:
            pair = _event(), _event()
            pair[0].record()
            self._events.append(pair)
        self._begin = time.perf_counter()

    def __exit__(self, *_error: object) -> None:
        if self._cuda:
            self._events[-1][1].record()
        else:
            self._seconds += time.perf_counter() - self._begin

    @property
    def seconds(self) -> float:
        """Seconds so far; synchronises with the GPU."""
        for begin, end in self._events:
            end.synchronize()
            self._seconds += begin.elapsed_time(end) / 1000
        self._events.clear()
        return self._seconds

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._seconds = seconds


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch has no type for it


def trainees_as_module(trainees: list[Trainee]) -> nn.ModuleDict:
    """The heads as one module, by number, for a checkpoint."""
    return nn.ModuleDict({str(number): trainee.head for number, trainee in enumerate(trainees)})
