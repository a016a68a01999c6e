"""parse_options: parse a command line into a dataclass; its fields are options, the text under a field is the help."""

import argparse
import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, cast, get_args, get_origin

from typing_extensions import override

from bertvision.errors import BertVisionError, UnknownNameError

T = TypeVar("T")
_Group = argparse._ArgumentGroup  # noqa: SLF001 - argparse has no public name for it


class GivenOptions(frozenset[str]):
    """Names of the options given on the command line; a field of this type is filled with them, and is no option."""

    __slots__ = ()


class _Parser(argparse.ArgumentParser):
    """Raises a `BertVisionError` instead of exiting."""

    @override
    def error(self, message: str) -> NoReturn:
        raise BertVisionError(f"{message}. See: {self.prog} --help")


def parse_options(cls: type[T], argv: Sequence[str], *, prog: str, summary: str, examples: Sequence[str]) -> T:
    """Parse a command line into a dataclass; `--help` prints the field docstrings, and exits.

    A field without a default is a positional argument; one with a default is an option of the same name. A field whose
    type is a dataclass is a group of options. The metadata of a field, such as a metavar, are passed to argparse.

    Args:
        cls: the dataclass.
        argv: words of the command line, after the command.
        prog: the command, for messages.
        summary: description at the top of the help.
        examples: command lines at the end of the help.

    Raises:
        BertVisionError: an unknown option (the most similar one is named), a missing argument, or an invalid value.
        SystemExit: after `--help`.
    """
    parser = _Parser(
        prog=prog,
        description=summary,
        epilog="examples:\n" + textwrap.indent("\n".join(examples), "  ") if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    group = parser.add_argument_group("options")
    _add_fields(parser, parser.add_argument_group("arguments"), group, cls)
    group.add_argument("-h", "--help", action="help", help="Show this help.")
    options = [action for action in parser._actions if action.option_strings and action.dest != "help"]  # noqa: SLF001 - no other way
    # with None as the default of every option, the given ones can be told from the others
    parsed, unknown = parser.parse_known_args(argv, argparse.Namespace(**{action.dest: None for action in options}))
    if unknown:
        known = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001 - no other way
        if unknown[0].startswith("-"):
            raise UnknownNameError("option", unknown[0].partition("=")[0], known)
        raise BertVisionError(f"'{unknown[0]}' is one word too many. See: {prog} --help")
    given = GivenOptions(name for name, value in vars(parsed).items() if value is not None)
    defaults = {action.dest: action.default for action in options if action.dest not in given}
    return _build(cls, vars(parsed) | defaults, given)


def _add_fields(parser: _Parser, arguments: _Group, group: _Group, cls: type) -> None:
    """Add a dataclass's fields: those without a default to `arguments`, the others to `group`."""
    hints = typing.get_type_hints(cls)
    help_texts = field_docs(cls)
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if hint is GivenOptions:
            continue
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            title = (hint.__doc__ or hint.__name__).splitlines()[0].rstrip(".")
            _add_fields(parser, arguments, parser.add_argument_group(title[0].lower() + title[1:]), hint)
            continue
        text = help_texts[field.name].replace("%", "%%")
        settings = _settings(hint) | dict(field.metadata)
        if field.default is dataclasses.MISSING:
            if get_origin(hint) is tuple:  # at least one word
                settings = {"nargs": "+", "type": str}
            arguments.add_argument(field.name, help=text, **(settings | {"metavar": field.name.upper()}))
            continue
        if (
            not (field.default is None or field.default is False or field.default in ("", ()))
            and "(default" not in text
        ):
            text += f" (default: {field.default})"
        option = "--" + field.name.rstrip("_").replace("_", "-")  # `from_`, as `from` is a keyword of Python
        group.add_argument(option, dest=field.name, default=field.default, help=text, **settings)


def _settings(hint: Any) -> dict[str, Any]:  # noqa: ANN401 - type hints have no common type
    """The arguments of `add_argument` for a type."""
    if get_origin(hint) in (types.UnionType, typing.Union):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if hint is bool:
        return {"action": "store_true"}
    if get_origin(hint) is tuple:
        return {"action": "append", "type": str, "metavar": "NAME=VALUE"}
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return {"type": _choice(choices), "metavar": "|".join(choices)}
    metavars: dict[type, str] = {int: "N", float: "X", str: "TEXT", Path: "PATH"}
    return {"type": hint, "metavar": metavars[hint]}


def _choice(choices: tuple[str, ...]) -> Callable[[str], str]:
    """A parser that accepts only these words."""

    def check(word: str) -> str:
        if word not in choices:
            raise argparse.ArgumentTypeError(f"'{word}' is not one of {', '.join(choices)}")
        return word

    return check


def _build(cls: type[T], values: dict[str, Any], given: GivenOptions) -> T:
    """Make the dataclass, and those nested in it, from values by field name."""
    hints = typing.get_type_hints(cls)
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # T is a dataclass by contract
        hint = hints[field.name]
        if hint is GivenOptions:
            arguments[field.name] = given
        elif isinstance(hint, type) and dataclasses.is_dataclass(hint):
            arguments[field.name] = _build(hint, values, given)
        else:
            value = values[field.name]
            arguments[field.name] = tuple(value) if isinstance(value, list) else value
    return cls(**arguments)


def field_docs(cls: type) -> dict[str, str]:
    """The docstring under each field of a dataclass and of its base classes, by field name."""
    if not isinstance(cls, type):
        raise TypeError(f"{cls} is not a class")
    docs: dict[str, str] = {}
    for base in reversed([base for base in cls.__mro__ if dataclasses.is_dataclass(base)]):
        body = cast("ast.ClassDef", ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]).body
        for statement, following in pairwise(body):
            match statement, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[name] = inspect.cleandoc(text).replace("\n", " ")
    return docs
