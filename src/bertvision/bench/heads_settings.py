"""HeadsSettings: the settings of cells of the kind `heads`, and the ways of joining models."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import ceil, inf

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.settings import TaskSettings, TuneSettings
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.evaluation.ensemble import How
from bertvision.runs.fitting.fit_request import STREAM, FitRequest
from bertvision.runs.fitting.head_specs import ALL, parse_heads
from bertvision.runs.judging.subject import OWN_OUTPUT
from bertvision.tasks.load import find_task
from bertvision.tasks.task import TaskKind
from bertvision.training.trainee import HeadSpec

WAYS: tuple[How, ...] = ("max", "mean", "greedy")
"""Ways of joining models into an ensemble; see `How`."""

UNTUNED = "0"
"""Epochs of the encoder before any tuning, in the names of models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsSettings(TaskSettings):
    """Heads on a frozen encoder, and ensembles of them.

    Attributes:
        on: the tuned run whose snapshots are read, which also gives the `TaskSettings`; None reads an untuned encoder.
        at: epochs of the snapshots; empty for the last one.
        heads: names of heads with options, such as `adapter_pool size=128 skip=true`; `all` are all that fit the task.
        shares: shares of the training examples to train each head on, in one pass; named `HEAD share=0.3` if not all.
        head_epochs: passes over the training examples.
        each_epoch: whether to score heads on held-out examples after every epoch, and keep the best checkpoint of each.
        head_lr: learning rate.
        batch: windows per step.
        ensembles: ways of joining the heads of each snapshot, and those of all snapshots.
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
        """Copy the `TaskSettings` of the tuned run."""
        for one in fields(TaskSettings) if self.on is not None else ():
            object.__setattr__(self, one.name, getattr(self.on, one.name))

    @property
    def reads(self) -> tuple[TuneSettings, ...]:
        """Settings of the tuned runs that the cell depends on."""
        return () if self.on is None else (self.on,)

    @property
    def fractions(self) -> list[float]:
        """Epochs of the snapshots that heads read; empty for the encoder before any tuning."""
        if self.on is None:
            return []
        return sorted(self.at) or [self.on.epochs]

    @property
    def models(self) -> list[str]:
        """Names of the models in the result; an ensemble of all snapshots is named by the way it is joined."""
        levels = [f"{fraction:g}" for fraction in self.fractions] or [UNTUNED]
        own = [OWN_OUTPUT] if self.on is not None else []
        ways = fitting_ways(self.ensembles, find_task(self.task).kind)
        names = [f"{name}@{level}" for level in levels for name in [*self.specs(0), *own, *ways]]
        return [*names, *(ways if len(levels) > 1 else ())]

    def specs(self, seed: int) -> dict[str, HeadSpec]:
        """What to train, by label of the head: its name, options and share.

        Raises:
            BertVisionError: a head is unknown, or its options are not `KEY=VALUE`.
        """
        base = HeadSpec(head="last_layer", lr=self.head_lr, seed=seed, fraction=self.fraction)
        specs = {}
        for words in self.heads:
            name, *options = words.split() or [""]
            pairs = [option.partition("=") for option in options]
            for key, sign, value in pairs:
                if not key or not sign or not value:
                    raise BertVisionError(f"heads has '{words}'; a name and options such as size=64 are expected.")
            for spec in parse_heads(name, find_task(self.task).kind, base):
                label = " ".join([spec.head, *options])
                for share in self.shares:
                    full_label = label if share == 1.0 else f"{label} share={share:g}"
                    values = {key: value for key, _, value in pairs}
                    specs[full_label] = replace(spec, options=values, fraction=self.fraction * share)
        return specs

    def request(self, environment: BenchEnvironment, seed: int, encoder: str) -> FitRequest:
        """The request for `fit_heads`."""
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
        """Refuse settings that cannot work, before anything is measured.

        Raises:
            BertVisionError: an unknown task, head or way of joining, values out of range, or epochs without a snapshot.
        """
        find_task(self.task)
        if not 0.0 < self.head_epochs < inf:
            raise BertVisionError(f"head_epochs is {self.head_epochs:g}, more than 0 is expected.")
        if max(self.shares, default=0.0) != 1.0 or min(self.shares) <= 0.0:
            # the largest share determines which examples are held out; these must be those of the encoder's run
            raise BertVisionError(f"shares is {list(self.shares)}; 1.0 and shares between 0 and 1 are expected.")
        heads = tuple(self.specs(0).values())
        FitRequest(task=self.task, heads=heads, batch=self.batch, held_out=self.held_out).check()
        check_ways(self.ensembles)
        if self.on is None and self.at:
            raise BertVisionError('at names snapshots, and no tuned run is named. Add: on = "CELL"')
        known = self.fractions if self.on is None else self.on.fractions
        missing = sorted(set(self.fractions) - set(known))
        if missing:
            listed = ", ".join(f"{fraction:g}" for fraction in known)
            raise BertVisionError(f"at has {missing[0]:g}; the tuned run has snapshots at {listed}.")


def fitting_ways(asked: Sequence[str], kind: TaskKind) -> list[How]:
    """The ways of joining that fit a kind of task: for scores only the mean, since they have no probabilities."""
    return [way for way in WAYS if way in asked and (kind != "scores" or way == "mean")]


def check_ways(ways: Sequence[str]) -> None:
    """Refuse ways of joining that are unknown or named twice.

    Raises:
        BertVisionError: one of them is.
    """
    for way in ways:
        if way not in WAYS:
            raise UnknownNameError("ensemble", way, WAYS)
    if len(set(ways)) < len(ways):
        raise BertVisionError(f"ensembles is {list(ways)}; each may stand once.")
