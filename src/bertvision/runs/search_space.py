"""SearchSpace: what a search may choose from, read from a TOML file and checked before anything runs."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, get_type_hints

from bertvision.encoder.learn import parse_learn
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads import HEADS
from bertvision.heads.head import HeadOptions, OptionValue
from bertvision.heads.options import LAYERS, Option, head_options
from bertvision.training.options import TuneOptions
from bertvision.training.trainee import HeadSpec

Kind = Literal["heads", "tune"]
"""What a trial is: a head on a frozen encoder, or a tuned encoder."""

LEARN, HEAD, SEED, EPOCHS = "learn", "head", "seed", "epochs"
RANGE = ("low", "high", "log", "step")

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
    """What a trial is about.

    Attributes:
        learning: how it learns, by name.
        head: the head; None takes the encoder's own output.
        options: of the head.
    """

    learning: dict[str, Plain]
    head: str | None
    options: HeadOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpace:
    """What a search may choose from.

    Attributes:
        kind: what a trial is.
        learning: how a trial learns, by name.
        heads: the heads to choose from, and the options of each.
    """

    kind: Kind
    learning: dict[str, Domain] = field(default_factory=dict)
    heads: dict[str, dict[str, Domain]] = field(default_factory=dict)

    def suggest(self, trial: Suggests) -> None:
        """Choose for a trial; an option of a head is called `HEAD.OPTION`."""
        for name, domain in self.learning.items():
            domain.suggest(trial, name)
        if self.heads:
            head = str(trial.suggest_categorical(HEAD, tuple(self.heads)))
            for option, domain in self.heads[head].items():
                domain.suggest(trial, f"{head}.{option}")

    def point(self, values: Mapping[str, Any]) -> Point:
        """What was chosen, by the names of `suggest`."""
        head = str(values[HEAD]) if self.heads else None
        chosen = {} if head is None else {option: values[f"{head}.{option}"] for option in self.heads[head]}
        return Point(learning={name: values[name] for name in self.learning}, head=head, options=chosen)


def load_space(path: Path) -> SearchSpace:
    """A space from its file; see docs/search.md.

    Raises:
        BertVisionError: it cannot be read, or a name or a value in it is wrong; the nearest right one is named.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BertVisionError(f"{path} cannot be read as TOML ({error}).") from None
    try:
        return parse_space(content)
    except BertVisionError as error:
        raise BertVisionError(f"{path}: {error}") from None


def parse_space(content: Mapping[str, Any]) -> SearchSpace:
    """A space from the content of its file.

    Raises:
        BertVisionError: as `load_space`.
    """
    kind = content.get("kind", "heads")
    if kind not in get_args(Kind):
        raise UnknownNameError("kind", str(kind), get_args(Kind))
    known = _learning(kind)
    domains = {}
    for name, value in content.items():
        if name in ("kind", HEAD):
            continue
        _check_name(name, kind, known)
        domains[name] = _domain(name, value, known[name])
    heads = content.get(HEAD, {})
    if not isinstance(heads, dict) or not all(isinstance(options, dict) for options in heads.values()):
        raise BertVisionError(f"{HEAD} is {heads!r}, a table [head.NAME] for each head is expected.")
    if kind == "heads" and not heads:
        raise BertVisionError("there is no head to choose. Add a table for each, such as [head.layer_mix].")
    if not heads and not domains:
        raise BertVisionError("there is nothing to choose. Add a line such as lr = { low = 1e-5, high = 1e-3 }.")
    return SearchSpace(kind=kind, learning=domains, heads={name: _head(name, given) for name, given in heads.items()})


def _check_name(name: str, kind: Kind, known: Mapping[str, Option]) -> None:
    if name == SEED:
        raise BertVisionError("the seed is never searched: the best of many seeds is luck. Fix it with --seed.")
    if name == EPOCHS:
        raise BertVisionError("epochs are the same for all trials, whose rungs are parts of them. Use --epochs.")
    if name in HEADS:
        raise BertVisionError(f"'{name}' is a head. Its table is called [head.{name}].")
    if name not in known:
        raise UnknownNameError(f"name in a space of {kind}", name, [*known, HEAD, "kind"])


def _learning(kind: Kind) -> dict[str, Option]:
    """How a trial of a kind may learn: name, type and default."""
    usual = HeadSpec(head="last_layer") if kind == "heads" else TuneOptions()
    fixed = {HEAD, "options", "fraction", SEED, EPOCHS, "patience"}
    hints = get_type_hints(type(usual))
    known = {
        one.name: Option(name=one.name, hint=hints[one.name], default=getattr(usual, one.name))
        for one in fields(usual)
        if one.name not in fixed
    }
    if kind == "tune":
        known[LEARN] = Option(name=LEARN, hint=str, default="full")
    return known


def _head(name: str, given: Mapping[str, Any]) -> dict[str, Domain]:
    if name not in HEADS:
        raise UnknownNameError("head", name, HEADS)
    known = head_options(HEADS[name].head)
    known[LAYERS] = Option(name=LAYERS, hint=str, default=None)
    for option in given:
        if option == SEED:
            _check_name(option, "heads", {})
        if option not in known:
            raise UnknownNameError(f"option of head '{name}'", option, known)
    try:
        return {option: _domain(option, value, known[option]) for option, value in given.items()}
    except BertVisionError as error:
        raise BertVisionError(f"head '{name}': {error}") from None


def _domain(name: str, value: object, option: Option) -> Domain:
    """A list is a choice, a table with `low` and `high` a range, anything else the one value."""
    if isinstance(value, dict):
        return _range(name, value, option)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise BertVisionError(f"{name} is an empty list; at least one value is expected.")
    for one in values:
        if not isinstance(one, bool | int | float | str):
            raise BertVisionError(f"{name} has {one!r}; words, numbers, true or false are expected.")
    return Choice(values=tuple(_checked(one, option) for one in dict.fromkeys(values)))


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
    whole = isinstance(numbers[0], int)
    if step is not None and (type(step) not in ((int,) if whole else (int, float)) or step <= 0):
        raise BertVisionError(f"the step of the range {name} is {step!r}, a number above 0 is expected.")
    return Range(low=numbers[0], high=numbers[1], log=log, step=step)


def _checked(value: Any, option: Option) -> Plain:  # noqa: ANN401 - whatever TOML has
    """A value as Optuna keeps it; one that the option does not take is refused."""
    if option.hint is str:
        if not isinstance(value, str):
            raise BertVisionError(f"option {option.name} is {value!r}, a word is expected.")
        if option.name == LEARN:
            parse_learn(value)
        return value
    parsed: OptionValue = option.parse(value)
    problems = _problems(option.name, parsed)
    if problems:
        raise BertVisionError("; ".join(problem.removeprefix("--") for problem in problems) + ".")
    return parsed if isinstance(parsed, bool | int | float) else str(value)


def _problems(name: str, value: OptionValue) -> list[str]:
    """What is wrong with a value of learning, as the options themselves say."""
    dashed = f"--{name.replace('_', '-')} "
    specs: dict[str, Any] = {name: value}
    listed: list[str] = []
    if name in {one.name for one in fields(TuneOptions)}:
        listed = TuneOptions(**specs).problems()
    elif name in {one.name for one in fields(HeadSpec)}:
        listed = HeadSpec(head="last_layer", **specs).problems()
    return [problem for problem in listed if problem.startswith(dashed)]
