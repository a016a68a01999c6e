"""SearchSpace: the options that a search chooses, with their values, and the choice of one trial."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from typing_extensions import override

from bertvision.heads.head import HeadOptions

Kind = Literal["heads", "tune", "multitask"]
"""What a trial is: a head on a frozen encoder, an encoder tuned for a task, or one tuned for several."""

HEAD = "head"
"""Name of the parameter that chooses a head."""

Plain = bool | int | float | str
"""The values that Optuna can store."""


class Suggests(Protocol):
    """The methods of an Optuna trial that a space uses."""

    def suggest_categorical(self, name: str, choices: tuple[Plain, ...]) -> Plain:
        """One of several values."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """A whole number."""

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """A number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several values, or a single fixed one."""

    values: tuple[Plain, ...]

    def suggest(self, trial: Suggests, name: str) -> Plain:
        """The trial's value of the parameter `name`."""
        return trial.suggest_categorical(name, self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A number from `low` to `high`, both included; whole where both are.

    Attributes:
        low, high: the bounds.
        log: whether to sample on a logarithmic scale, as for learning rates.
        step: distance between neighbouring values; None is 1 for whole numbers, and allows any other number.
    """

    low: int | float
    high: int | float
    log: bool = False
    step: int | float | None = None

    def suggest(self, trial: Suggests, name: str) -> Plain:
        """The trial's value of the parameter `name`."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return trial.suggest_int(name, self.low, self.high, step=int(self.step or 1), log=self.log)
        return trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log)


Domain = Choice | Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The choice of one trial, or of one of its tasks.

    Attributes:
        learning: chosen training options, by name.
        head: name of the head; None if there was no choice, which means the default.
        options: options of the head.
        tasks: choices for single tasks, by task.
    """

    learning: dict[str, Plain]
    head: str | None
    options: HeadOptions
    tasks: "dict[str, Point]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What can be chosen for a trial, or for one of its tasks.

    Attributes:
        learning: the training options to choose, by name.
        heads: the heads to choose from, with the options of each.
    """

    learning: dict[str, Domain] = field(default_factory=dict)
    heads: dict[str, dict[str, Domain]] = field(default_factory=dict)

    def suggest(self, trial: Suggests, prefix: str = "") -> None:
        """Let a trial choose all parameters; an option of a head is called `HEAD.OPTION`.

        Args:
            trial: the trial.
            prefix: comes before the name of every parameter, such as `TASK.`.
        """
        for name, domain in self.learning.items():
            domain.suggest(trial, prefix + name)
        if self.heads:
            head = str(trial.suggest_categorical(prefix + HEAD, tuple(self.heads)))
            for option, domain in self.heads[head].items():
                domain.suggest(trial, f"{prefix}{head}.{option}")

    def point(self, values: Mapping[str, Any], prefix: str = "") -> Point:
        """The choice in a trial's parameters, whose names are those of `suggest`."""
        head = str(values[prefix + HEAD]) if self.heads else None
        chosen = {} if head is None else {option: values[f"{prefix}{head}.{option}"] for option in self.heads[head]}
        return Point(
            learning={name: values[prefix + name] for name in self.learning},
            head=head,
            options=chosen,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace(Choices):
    """A search space; what it inherits is for all tasks of a trial.

    Attributes:
        kind: what a trial is.
        tasks: choices for single tasks, by task; the names of their parameters begin with `TASK.`.
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
