"""Prints results to standard output and messages to standard error; with `--json`, standard output is only JSON."""

import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 160
"""Width of a table in characters if standard output is not a terminal."""


def print_json(content: object) -> None:
    """Print a value as JSON; NaN and infinity become null."""
    print(json.dumps(_without_nan(content), indent=2, ensure_ascii=False))  # noqa: T201 - this is the output


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table below its title; columns of numbers are right-aligned, and the title is never wrapped."""
    rows = [["yes" if cell is True else "no" if cell is False else cell for cell in row] for row in rows]
    table = Table()
    for number, column in enumerate(columns):
        numeric = all(isinstance(row[number], int | float | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(Text(title, style="bold"), soft_wrap=True)
    console.print(table)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to standard output."""
    for line in lines:
        print(line)  # noqa: T201 - this is the output


def print_note(text: str) -> None:
    """Print a message to standard error."""
    print(f"note: {text}", file=sys.stderr)  # noqa: T201 - this is the output


def print_notes(texts: Iterable[str]) -> None:
    """Print messages to standard error."""
    for text in texts:
        print_note(text)


class ProgressBar:
    """A progress bar on standard error with rate, remaining time and newest values; its `show` is a `Show` callback.

    The values of a snapshot stay on the screen as a line above the bar. If standard error is not a terminal, there is
    no bar, but a line for every call with values or a message.
    """

    def __init__(self, title: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),  # a path may have braces and brackets
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[values]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._plain = not console.is_terminal
        self._task = self._progress.add_task(title, total=None, rate="", values="")
        self._begin = (0.0, 0)  # time and step of the first call
        self._step = self._total = 0
        self._values = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.stop()

    def show(self, step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        """Show progress.

        Args:
            step: steps done.
            total: steps in all.
            values: newest values by name; without any, the last ones stay beside the bar.
            doing: what takes long now, if anything.
        """
        now = time.monotonic()
        if not self._begin[0] or step < self._step or total != self._total:  # the next of several runs begins
            self._begin, self._values = (now, step), ""
        self._step, self._total = step, total
        elapsed = now - self._begin[0]
        rate = _rate(step - self._begin[1], elapsed)
        newest = "  ".join(f"{name} {_cell(_without_fraction(value))}" for name, value in values.items())
        is_snapshot = "snapshot" in values
        if values:
            self._values = "" if is_snapshot else newest
        beside = "  ".join(word for word in (self._values, doing) if word)
        self._progress.update(self._task, completed=step, total=total, rate=rate, values=beside)
        if is_snapshot or (self._plain and (values or doing)):
            words = [f"step {step:,} of {total:,}", "" if is_snapshot else rate, newest, doing]
            line = "  ".join(word for word in words if word)
            self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _rate(steps: int, seconds: float) -> str:
    """Steps per second, or seconds per step if there is less than one in a second; empty before the first step."""
    if steps <= 0 or seconds <= 0.0:
        return ""
    return f"{steps / seconds:.1f} steps/s" if steps > seconds else f"{_cell(seconds / steps)} s a step"


def _without_fraction(value: float) -> float:
    """A whole number as an int, so that counts are shown as 34, not as 34.0."""
    return int(value) if float(value).is_integer() else value


def _cell(value: object) -> str:
    """A value as text: four significant digits of floats below 10, one decimal of larger ones."""
    match value:
        case None:
            return ""
        case float():
            return f"{value:.4g}" if abs(value) < 10 else f"{value:,.1f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def _without_nan(value: object) -> object:
    """The value with None for NaN and infinity, also inside dictionaries and lists."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _without_nan(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_nan(item) for item in value]
        case _:
            return value
