"""SearchSpace: what a search may choose from, and what was chosen for a trial."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from typing_extensions import override

from bertvision.heads.head import HeadOptions

Kind = Literal["heads", "tune", "multitask"]
"""What a trial is: a head on a frozen encoder, an encoder tuned for a task, or one tuned for several."""

HEAD = "head"
"""Name of the choice among heads."""

Plain = bool | int | float | str


class Suggests(Protocol):
    """What a space needs of a trial of Optuna."""

    def suggest_categorical(self, name: str, choices: tuple[Plain, ...]) -> Plain:
        """One of some values."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """A whole number."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """A number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of some values; a single one is always taken."""

    values: tuple[Plain, ...]

    def suggest(self, trial: Suggests, name: str) -> Plain:
        """A value for a trial."""
        return trial.suggest_categorical(name, self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A number from `low` to `high`, both included; whole where both are.

    Attributes:
        low, high: the ends.
        log: whether factors count alike, as for learning rates.
        step: distance of the values; None takes any.
    """

    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = None

    def suggest(self, trial: Suggests, name: str) -> Plain:
        """A value for a trial."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, step=int(self.step or 1), log=self.log)
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)


Domain = Choice | Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a trial, or one of its tasks, is about.

    Attributes:
        learning: how it learns, by name.
        head: the head; None leaves it as it is without a choice.
        options: options of the head.
        tasks: what was chosen for single tasks.
    """

    learning: dict[str, Plain]
    head: str | None
    options: HeadOptions
    tasks: "dict[str, Point]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What can be chosen for a trial, or for one of its tasks.

    Attributes:
        learning: how it learns, by name.
        heads: the heads to choose from, and the options of each.
    """

    learning: dict[str, Domain] = field(default_factory=dict)
    heads: dict[str, dict[str, Domain]] = field(default_factory=dict)

    def suggest(self, trial: Suggests, prefix: str = "") -> None:
        """Choose for a trial; an option of a head is called `HEAD.OPTION`."""
        for name, domain in self.learning.items():
            domain.suggest(trial, prefix + name)
        if self.heads:
            head = str(trial.suggest_categorical(prefix + HEAD, tuple(self.heads)))
            for option, domain in self.heads[head].items():
                domain.suggest(trial, f"{prefix}{head}.{option}")

    def point(self, values: Mapping[str, Any], prefix: str = "") -> Point:
        """What was chosen, by the names of `suggest`."""
        head = str(values[prefix + HEAD]) if self.heads else None
        chosen = {} if head is None else {option: values[f"{prefix}{head}.{option}"] for option in self.heads[head]}
        return Point(
            learning={name: values[prefix + name] for name in self.learning},
            head=head,
            options=chosen,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace(Choices):
    """What a search may choose from: for all tasks of a trial, and for single ones besides.

    Attributes:
        kind: what a trial is.
        tasks: what is chosen for single tasks of several; its names begin with `TASK.`.
    """

    kind: Kind
    tasks: dict[str, Choices] = field(default_factory=dict)

    @override
    def suggest(self, trial: Suggests, prefix: str = "") -> None:
        Choices.suggest(self, trial, prefix)
        for task, choices in self.tasks.items():
            choices.suggest(trial, f"{prefix}{task}.")

    @override
    def point(self, values: Mapping[str, Any], prefix: str = "") -> Point:
        tasks = {task: choices.point(values, f"{prefix}{task}.") for task, choices in self.tasks.items()}
        return replace(Choices.point(self, values, prefix), tasks=tasks)
