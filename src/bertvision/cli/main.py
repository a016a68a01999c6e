"""The command line: finds the command, parses its options, and reports expected errors as one message."""

import errno
import io
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

import bertvision
from bertvision.cli.commands import COMMANDS, Command
from bertvision.cli.options import parse_options
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.provenance import COMMAND, without_password

BAD_INPUT = 2
INTERRUPTED = 130

WAITING = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment of torch's OpenMP threads: idle ones sleep instead of spinning. Where other work uses the cores, too, a
thread that spins keeps the one it waits for from running."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code: 0, 2 for errors that the user can correct, or 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be bytes that are not UTF-8
    words = list(sys.argv[1:] if argv is None else argv)
    os.environ.update({name: value for name, value in WAITING.items() if name not in os.environ})  # before torch loads
    token = COMMAND.set(shlex.join(["bertvision", *map(without_password, words)]))
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except BertVisionError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is the output
        return BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201 - this is the output
        return INTERRUPTED
    except BrokenPipeError:
        # the reader, such as `head`, has seen enough; keep Python from flushing into the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        message = f"'{str(error.filename)[:60]}…' is too long for a path. Put a text into a file, and name that"
        print(f"error: {message}.", file=sys.stderr)  # noqa: T201 - this is the output
        return BAD_INPUT
    finally:
        COMMAND.reset(token)
    return code


def _dispatch(words: list[str]) -> int:
    """Print help or the version, or run the command that the words name."""
    if not words or words[0] in ("-h", "--help"):
        print(overview())  # noqa: T201 - this is the output
        return 0
    if words[0] == "--version":
        print(f"bertvision {bertvision.__version__}")  # noqa: T201 - this is the output
        return 0
    if len(words) == 2 and words[1] in ("-h", "--help") and words[0] not in COMMANDS:
        group = {name: command for name, command in COMMANDS.items() if name.startswith(f"{words[0]} ")}
        if group:
            print(overview(group))  # noqa: T201 - this is the output
            return 0
    name, rest = _find(words)
    command = COMMANDS[name]
    module = import_module(command.module)
    try:
        options = parse_options(
            module.Options, rest, prog=f"bertvision {name}", summary=command.summary, examples=command.examples
        )
    except SystemExit:  # argparse exits after --help
        return 0
    code: int = module.run(options)
    return code


def _find(words: list[str]) -> tuple[str, list[str]]:
    """Split words into the name of a command, of one or two words, and its arguments."""
    pair = " ".join(words[:2])
    if pair in COMMANDS:
        return pair, words[2:]
    if words[0] in COMMANDS:
        return words[0], words[1:]
    group = [name for name in COMMANDS if name.startswith(f"{words[0]} ")]
    if group and len(words) == 1:
        raise BertVisionError(f"'bertvision {words[0]}' needs one more word: {', '.join(group)}.")
    raise UnknownNameError("command", pair if group else words[0], COMMANDS)


def overview(commands: Mapping[str, Command] = COMMANDS) -> str:
    """The text of `bertvision --help`, or of the help for a group such as `store`."""
    width = max(len(name) for name in commands)
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in commands.items()]
    return "\n".join(
        [
            "usage: bertvision COMMAND [OPTIONS]",
            "",
            str(bertvision.__doc__),
            "",
            "commands:",
            *lines,
            "",
            "bertvision COMMAND --help explains a command in full; bertvision --version prints the version.",
        ]
    )
