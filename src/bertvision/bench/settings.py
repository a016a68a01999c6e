"""What cells of each kind may be told, with defaults: the words of experiments/*.toml."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil, inf
from typing import Any

from bertvision.bench.environment import BUILTIN_DATA, BenchEnvironment
from bertvision.encoder.learn import parse_learn
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.evaluation.ensemble import How
from bertvision.heads import HEADS
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.runs.fitting.fit_request import STREAM, FitRequest
from bertvision.runs.fitting.head_specs import ALL, parse_heads
from bertvision.runs.judging.subject import OWN_OUTPUT
from bertvision.runs.request import TuneRequest
from bertvision.tasks.load import find_task
from bertvision.tasks.task import TaskKind
from bertvision.tasks.windows import WindowOptions
from bertvision.training.options import TuneOptions
from bertvision.training.schedule import Schedule
from bertvision.training.trainee import HeadSpec

WAYS: tuple[How, ...] = ("max", "mean", "greedy")
UNTUNED = "0"
"""Epochs of an encoder that nobody tuned, in the names of models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """Which examples, and which encoder.

    Attributes:
        task: its name.
        data: `builtin`, or a folder below that of `--data`.
        encoder: its name; `--encoder` says where it is.
        length, stride, question: of token windows.
        fraction: share of the training examples to use.
        held_out: share of those that nobody learns from: they fit thresholds and choose.
    """

    task: str = "squad2"
    data: str = BUILTIN_DATA
    encoder: str = BUILTIN_ENCODER
    length: int = 384
    stride: int = 128
    question: int = 64
    fraction: float = 1.0
    held_out: float = 0.05

    @property
    def windows(self) -> WindowOptions:
        """How texts are cut."""
        return WindowOptions(length=self.length, stride=self.stride, question=self.question)

    def data_fields(self, environment: BenchEnvironment) -> dict[str, Any]:
        """As a request has them."""
        return {
            "task": self.task,
            "data": environment.find_data(self.data),
            "encoder": environment.find_encoder(self.encoder),
            "windows": self.windows,
            "held_out": self.held_out,
            "device": environment.device,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnSettings(TaskSettings):
    """How an encoder learns.

    Attributes:
        learn: what learns; see `parse_learn`.
        epochs: passes over the data.
        snapshots: epochs after which it is measured; the end always is.
        lr: learning rate of the encoder; None is the default of `learn`.
        head_lr: learning rate of the output or head.
        batch: windows per step.
        schedule, warmup: how the learning rate moves.
    """

    learn: str = "full"
    epochs: float = 1.0
    snapshots: tuple[float, ...] = ()
    lr: float | None = None
    head_lr: float = 1e-3
    batch: int = 32
    schedule: Schedule = "linear"
    warmup: float = 0.06

    @property
    def fractions(self) -> list[float]:
        """Epochs after which it is measured."""
        return sorted({*self.snapshots, self.epochs})

    @property
    def models(self) -> list[str]:
        """Names of what is measured."""
        return [f"{fraction:g}" for fraction in self.fractions]

    def tuning(self, seed: int) -> TuneOptions:
        """As a tuned run has them."""
        names = ("epochs", "lr", "head_lr", "batch", "schedule", "warmup")
        return TuneOptions(**{name: getattr(self, name) for name in names}, seed=seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneSettings(LearnSettings):
    """A tuned run.

    Attributes:
        head: what reads the layers and learns with them; None is the plain output.
        options: options of that head.
        dropout: inside the encoder; None is the encoder's own.
        compile: compile the encoder's layers first.
    """

    head: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    dropout: float | None = None
    compile: bool = False

    def request(self, environment: BenchEnvironment, seed: int) -> TuneRequest:
        """What `tune` takes."""
        return TuneRequest(
            **self.data_fields(environment),
            learn=self.learn,
            options=replace(self.tuning(seed), dropout=self.dropout),
            snapshots=self.snapshots,
            fraction=self.fraction,
            compile=self.compile,
            head=self.head,
            head_options=self.options,
        )

    def check(self) -> None:
        """Refuse what cannot work, before anything is measured.

        Raises:
            BertVisionError: naming the word.
        """
        find_task(self.task)
        parse_learn(self.learn)
        if self.head is not None and self.head not in HEADS:
            raise UnknownNameError("head", self.head, HEADS)
        TuneRequest(
            task=self.task, learn=self.learn, options=self.tuning(0), fraction=self.fraction, held_out=self.held_out
        ).check()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsSettings(TaskSettings):
    """Heads on a frozen encoder, and what they say together.

    Attributes:
        on: the tuned run whose snapshots they read; None reads the encoder as it is. Its examples are theirs.
        at: epochs of the snapshots; empty is the last.
        heads: names, with options behind them, such as `adapter_pool size=128 skip=true`; `all` are all that fit.
        shares: of these examples; each head is trained on each, in one pass. A model of less than all is
            called `HEAD share=0.3`.
        head_epochs: passes over the data.
        each_epoch: whether held-out examples judge heads after every epoch, and the best of each is kept, not the last.
        head_lr: learning rate.
        batch: windows per step.
        ensembles: ways of joining the heads of each snapshot, and those of all.
    """

    on: TuneSettings | None = None
    at: tuple[float, ...] = ()
    heads: tuple[str, ...] = (ALL,)
    shares: tuple[float, ...] = (1.0,)
    head_epochs: float = 1.0
    each_epoch: bool = True
    head_lr: float = 1e-3
    batch: int = 32
    ensembles: tuple[str, ...] = WAYS

    def __post_init__(self) -> None:
        """Take over the examples of the tuned run."""
        for one in fields(TaskSettings) if self.on is not None else ():
            object.__setattr__(self, one.name, getattr(self.on, one.name))

    @property
    def reads(self) -> tuple[TuneSettings, ...]:
        """The tuned runs that are read."""
        return () if self.on is None else (self.on,)

    @property
    def fractions(self) -> list[float]:
        """Epochs of the snapshots that are read; none where the encoder is read as it is."""
        if self.on is None:
            return []
        return sorted(self.at) or [self.on.epochs]

    @property
    def models(self) -> list[str]:
        """Names of what is measured; ensembles of all snapshots have their way alone."""
        levels = [f"{fraction:g}" for fraction in self.fractions] or [UNTUNED]
        own = [OWN_OUTPUT] if self.on is not None else []
        ways = fitting_ways(self.ensembles, find_task(self.task).kind)
        names = [f"{name}@{level}" for level in levels for name in [*self.specs(0), *own, *ways]]
        return [*names, *(ways if len(levels) > 1 else ())]

    def specs(self, seed: int) -> dict[str, HeadSpec]:
        """Every head by its words.

        Raises:
            BertVisionError: there is no such head.
        """
        base = HeadSpec(head="last_layer", lr=self.head_lr, seed=seed, fraction=self.fraction)
        found = {}
        for words in self.heads:
            name, *options = words.split() or [""]
            pairs = [option.partition("=") for option in options]
            for key, sign, value in pairs:
                if not key or not sign or not value:
                    raise BertVisionError(f"heads has '{words}'; a name and options such as size=64 are expected.")
            for spec in parse_heads(name, find_task(self.task).kind, base):
                label = " ".join([spec.head, *options])
                for share in self.shares:
                    called = label if share == 1.0 else f"{label} share={share:g}"
                    given = {key: value for key, _, value in pairs}
                    found[called] = replace(spec, options=given, fraction=self.fraction * share)
        return found

    def request(self, environment: BenchEnvironment, seed: int, encoder: str) -> FitRequest:
        """What `fit_heads` takes."""
        return FitRequest(
            **(self.data_fields(environment) | {"encoder": encoder}),
            heads=tuple(self.specs(seed).values()),
            epochs=self.head_epochs,
            validate=tuple(map(float, range(1, ceil(self.head_epochs)))) if self.each_epoch else (),
            batch=self.batch,
            seed=seed,
            source=STREAM,
        )

    def check(self) -> None:
        """Refuse what cannot work, before anything is measured.

        Raises:
            BertVisionError: naming the word.
        """
        find_task(self.task)
        if not 0.0 < self.head_epochs < inf:
            raise BertVisionError(f"head_epochs is {self.head_epochs:g}, more than 0 is expected.")
        if max(self.shares, default=0.0) != 1.0 or min(self.shares) <= 0.0:
            # the largest share says which examples are held out, and that must be as the encoder's run has it
            raise BertVisionError(f"shares is {list(self.shares)}; 1.0 and shares between 0 and 1 are expected.")
        self.specs(0)
        check_ways(self.ensembles)
        if self.on is None and self.at:
            raise BertVisionError('at names snapshots, and no tuned run is named. Add: on = "CELL"')
        there = self.fractions if self.on is None else self.on.fractions
        missing = sorted(set(self.fractions) - set(there))
        if missing:
            listed = ", ".join(f"{fraction:g}" for fraction in there)
            raise BertVisionError(f"at has {missing[0]:g}; the tuned run has snapshots at {listed}.")


def fitting_ways(asked: Sequence[str], kind: TaskKind) -> list[How]:
    """Those of the ways that fit a kind of task: scores have no probabilities, and a mean alone."""
    return [way for way in WAYS if way in asked and (kind != "scores" or way == "mean")]


def check_ways(ways: Sequence[str]) -> None:
    """Refuse ways of joining that there are not, or that are named twice.

    Raises:
        BertVisionError: naming them.
    """
    for way in ways:
        if way not in WAYS:
            raise UnknownNameError("ensemble", way, WAYS)
    if len(set(ways)) < len(ways):
        raise BertVisionError(f"ensembles is {list(ways)}; each may stand once.")


RIVALS = ("full", "bitfit", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSettings(LearnSettings):
    """The usual loop over transformers and PEFT; `learn` is full, lora:R, bitfit or none."""

    def check(self) -> None:
        """Refuse what cannot work, before anything is measured.

        Raises:
            BertVisionError: naming the word.
        """
        find_task(self.task)
        if parse_learn(self.learn).lora is None and self.learn not in RIVALS:
            raise BertVisionError(f"learn is '{self.learn}'; the plain loop knows lora:R, {', '.join(RIVALS)}.")
        self.tuning(0).check()
