"""load_space: the search space in a TOML file, with every name and value checked before anything runs."""

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from bertvision.encoder.learn import parse_learn
from bertvision.errors import BertVisionError, UnknownNameError, refuse
from bertvision.heads import HEADS
from bertvision.heads.head import OptionValue
from bertvision.heads.options import LAYERS, Option, Positive, Whole, head_options
from bertvision.runs.searching.search_space import HEAD, Choice, Choices, Domain, Kind, Plain, Range, SearchSpace
from bertvision.runs.tuning.multitask_request import Input
from bertvision.tasks.files import read_toml
from bertvision.tasks.load import check_task_name
from bertvision.training.mix import Order, Turns
from bertvision.training.options import TuneOptions
from bertvision.training.trainee import HeadSpec

LEARN, SEED, EPOCHS, KIND, TASK, CAP, ASK = "learn", "seed", "epochs", "kind", "task", "cap", "ask"
RANGE = ("low", "high", "log", "step")

OF_A_TASK = {
    CAP: Option(name=CAP, hint=Whole | None, default=None),
    ASK: Option(name=ASK, hint=str, default=None),
}
"""What can be chosen for each of several tasks, beside its head."""

OF_SEVERAL = {
    "input": Option(name="input", hint=Input, default="apart"),
    "order": Option(name="order", hint=Order, default=Turns().order),
    "temperature": Option(name="temperature", hint=Positive, default=Turns().temperature),
    "balance": Option(name="balance", hint=bool, default=Turns().balance),
}
"""What can be chosen for all of several tasks: the form of their inputs, and the order of their batches."""


def load_space(path: Path) -> SearchSpace:
    """The search space in a TOML file; see docs/search.md.

    Raises:
        BertVisionError: the file cannot be read, or a name or value in it is wrong; for an unknown name the most
            similar known one is given.
    """
    content = read_toml(path)
    try:
        return parse_space(content)
    except BertVisionError as error:
        raise BertVisionError(f"{path}: {error}") from None


def parse_space(content: Mapping[str, Any]) -> SearchSpace:
    """The search space that the content of a file describes.

    Raises:
        BertVisionError: as `load_space`.
    """
    kind = content.get(KIND, "heads")
    if kind not in get_args(Kind):
        raise UnknownNameError("kind", str(kind), get_args(Kind))
    tables = [KIND, HEAD, *([TASK] if kind == "multitask" else [])]
    shared = _choices(content, _training_options(kind), f"a space of {kind}", tables)
    task_tables = content.get(TASK, {}) if TASK in tables else {}
    if not isinstance(task_tables, dict) or not all(isinstance(table, dict) for table in task_tables.values()):
        raise BertVisionError(f"{TASK} is {task_tables!r}, a table [task.NAME] for a task is expected.")
    if kind == "heads" and not shared.heads:
        raise BertVisionError("there is no head to choose. Add a table for each, such as [head.layer_mix].")
    tasks = {name: _task(name, table) for name, table in task_tables.items()}
    if not any(part.learning or part.heads for part in (shared, *tasks.values())):
        raise BertVisionError("there is nothing to choose. Add a line such as lr = { low = 1e-5, high = 1e-3 }.")
    return SearchSpace(kind=kind, learning=shared.learning, heads=shared.heads, tasks=tasks)


def _task(name: str, table: Mapping[str, Any]) -> Choices:
    """The choices in a table [task.NAME]."""
    check_task_name(name)
    try:
        return _choices(table, OF_A_TASK, "the table of a task", [HEAD])
    except BertVisionError as error:
        raise BertVisionError(f"task '{name}': {error}") from None


def _choices(content: Mapping[str, Any], known: Mapping[str, Option], where: str, tables: list[str]) -> Choices:
    """The choices in a table of a file.

    Args:
        content: the table.
        known: the options that it may have, by name.
        where: the table in words, for messages.
        tables: names in it that are tables; only that of the heads is read here.
    """
    domains = {}
    for name, value in content.items():
        if name not in tables:
            _check_name(name, where, known, tables)
            domains[name] = _domain(name, value, known[name])
    heads = content.get(HEAD, {})
    if not isinstance(heads, dict) or not all(isinstance(options, dict) for options in heads.values()):
        raise BertVisionError(f"{HEAD} is {heads!r}, a table [head.NAME] for each head is expected.")
    return Choices(learning=domains, heads={name: _head(name, given) for name, given in heads.items()})


def _check_name(name: str, where: str, known: Mapping[str, Option], tables: list[str]) -> None:
    if name == SEED:
        raise BertVisionError("the seed is never searched: the best of many seeds is luck. Fix it with --seed.")
    if name == EPOCHS:
        raise BertVisionError("epochs are the same for all trials, whose rungs are parts of them. Use --epochs.")
    if name in HEADS:
        raise BertVisionError(f"'{name}' is a head. Its table is called [head.{name}].")
    if name not in known:
        raise UnknownNameError(f"name in {where}", name, [*known, *tables])


def _training_options(kind: Kind) -> dict[str, Option]:
    """The training options that trials of a kind may choose, by name."""
    defaults = HeadSpec(head="last_layer") if kind == "heads" else TuneOptions()
    fixed = {HEAD, "options", "fraction", SEED, EPOCHS, "patience"}
    hints = get_type_hints(type(defaults))
    known = {
        field.name: Option(name=field.name, hint=hints[field.name], default=getattr(defaults, field.name))
        for field in fields(defaults)
        if field.name not in fixed
    }
    if kind != "heads":
        known[LEARN] = Option(name=LEARN, hint=str, default="full")
    return known | OF_SEVERAL if kind == "multitask" else known


def _head(name: str, given: Mapping[str, Any]) -> dict[str, Domain]:
    """The options to choose in a table [head.NAME], with their values."""
    if name not in HEADS:
        raise UnknownNameError("head", name, HEADS)
    known = head_options(HEADS[name].head)
    known[LAYERS] = Option(name=LAYERS, hint=str, default=None)
    for option in given:
        if option == SEED:
            _check_name(option, "", {}, [])
        if option not in known:
            raise UnknownNameError(f"option of head '{name}'", option, known)
    try:
        return {option: _domain(option, value, known[option]) for option, value in given.items()}
    except BertVisionError as error:
        raise BertVisionError(f"head '{name}': {error}") from None


def _domain(name: str, value: object, option: Option) -> Domain:
    """The domain of an option: a list is a choice, a table with `low` and `high` a range, any other value is fixed."""
    if isinstance(value, dict):
        return _range(name, value, option)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise BertVisionError(f"{name} is an empty list; at least one value is expected.")
    for item in values:
        if not isinstance(item, bool | int | float | str):
            raise BertVisionError(f"{name} has {item!r}; words, numbers, true or false are expected.")
    return Choice(values=tuple(_checked(item, option) for item in dict.fromkeys(values)))


def _range(name: str, table: Mapping[str, Any], option: Option) -> Range:
    for key in table:
        if key not in RANGE:
            raise UnknownNameError(f"key of the range {name}", key, RANGE)
    low, high = (_checked(table[end], option) if end in table else None for end in ("low", "high"))
    numbers = [value for value in (low, high) if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < 2 or not numbers[0] < numbers[1]:
        raise BertVisionError(f"the range {name} is {dict(table)}; two numbers, low < high, are expected.")
    log, step = table.get("log", False), table.get("step")
    if not isinstance(log, bool) or (log and (step is not None or numbers[0] <= 0)):
        raise BertVisionError(f"the range {name} is {dict(table)}; log = true needs low > 0 and no step.")
    integer = isinstance(numbers[0], int)
    if step is not None and (type(step) not in ((int,) if integer else (int, float)) or not 0 < step < math.inf):
        raise BertVisionError(f"the step of the range {name} is {step!r}, a number above 0 is expected.")
    return Range(low=numbers[0], high=numbers[1], log=log, step=step)


def _checked(value: Any, option: Option) -> Plain:  # noqa: ANN401 - whatever TOML has
    """A value in the form that Optuna stores; one that the option does not allow is refused."""
    if option.hint is str:
        if not isinstance(value, str):
            raise BertVisionError(f"option {option.name} is {value!r}, a word is expected.")
        if option.name == LEARN:
            parse_learn(value)
        return value
    parsed: OptionValue = option.parse(value)
    refuse(problem.removeprefix("--") for problem in _problems(option.name, parsed))
    return parsed if isinstance(parsed, bool | int | float) else str(value)


def _problems(name: str, value: OptionValue) -> list[str]:
    """What `TuneOptions` or `HeadSpec` finds wrong with the value of a training option; nothing for other options."""
    dashed = f"--{name.replace('_', '-')} "
    given: dict[str, Any] = {name: value}
    problems: list[str] = []
    if name in {field.name for field in fields(TuneOptions)}:
        problems = TuneOptions(**given).problems()
    elif name in {field.name for field in fields(HeadSpec)}:
        problems = HeadSpec(head="last_layer", **given).problems()
    return [problem for problem in problems if problem.startswith(dashed)]
