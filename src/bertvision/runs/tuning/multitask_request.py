"""MultitaskRequest: the settings of a run that tunes an encoder for several tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from typing_extensions import override

from bertvision.heads.head import HeadOptions
from bertvision.runs.request import LearnRequest
from bertvision.tasks.load import check_task_name
from bertvision.training.mix import Order, Turns

Input = Literal["apart", "pair", "qa"]
"""How texts reach the encoder: the two texts of a pair separately; as one window; or as the context of a question."""

DEFAULT_HEAD = "dense_stack"


@dataclass(frozen=True, slots=True, kw_only=True)
class MultitaskRequest(LearnRequest):
    """The settings of a run that tunes an encoder for several tasks; `task` has their names between commas.

    Attributes:
        heads_of: name of the head of each task, by task; `dense_stack` for tasks that are not named.
        options_of: options of the head of each task, by task.
        input: how texts reach the encoder.
        questions: questions for the input `qa`, by task; tasks that are not named have a default question.
        order: order of an epoch's batches.
        temperature: temperature of the order of that name.
        caps: largest number of windows of a task in an epoch, by task.
        balance: draw training windows so that every class occurs equally often.
    """

    heads_of: Mapping[str, str] = field(default_factory=dict)
    options_of: Mapping[str, HeadOptions] = field(default_factory=dict)
    input: Input = "apart"
    questions: Mapping[str, str] = field(default_factory=dict)
    order: Order = "sequence"
    temperature: float = 2.0
    caps: Mapping[str, int] = field(default_factory=dict)
    balance: bool = False

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the given order."""
        return task_names(self.task)

    @property
    def turns(self) -> Turns:
        """The order of batches, and the windows of each task in an epoch."""
        return Turns(order=self.order, temperature=self.temperature, caps=self.caps, balance=self.balance)

    @override
    def problems(self) -> list[str]:
        problems = [*LearnRequest.problems(self), *task_problems(self.tasks)]
        if not 0.0 < self.temperature < float("inf"):
            problems.append(f"--temperature is {self.temperature:g}, more than 0 is expected")
        problems += cap_problems(self.caps, self.tasks)
        for option, values in (("--heads", self.heads_of), ("--set", self.options_of), ("--ask", self.questions)):
            problems += unknown_tasks(option, values, self.tasks)
        return problems


def cap_problems(caps: Mapping[str, int], tasks: Sequence[str]) -> list[str]:
    """One message for every invalid cap, and for every one of an unknown task."""
    problems = [f"--cap {name} is {most}, at least 1 is expected" for name, most in caps.items() if most < 1]
    return problems + unknown_tasks("--cap", caps, tasks)


def unknown_tasks(option: str, values: Mapping[str, object], tasks: Sequence[str]) -> list[str]:
    """One message for every key of an option's values that is none of the tasks."""
    return [
        f"{option} names {name}, which is none of the tasks {', '.join(tasks)}" for name in values if name not in tasks
    ]


def task_names(words: str) -> tuple[str, ...]:
    """The names in a list between commas."""
    return tuple(name.strip() for name in words.split(",") if name.strip())


def task_problems(tasks: tuple[str, ...]) -> list[str]:
    """One message if there are no tasks, and one for each that is named twice.

    Raises:
        UnknownNameError: there is no task of a name.
    """
    for name in tasks:
        check_task_name(name)
    if not tasks:
        return ["--tasks names no task, names between commas are expected"]
    doubled = [name for name in dict.fromkeys(tasks) if tasks.count(name) > 1]
    return [f"{name} is named {tasks.count(name)} times, once is expected" for name in doubled]
