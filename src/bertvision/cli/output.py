"""Results on standard output, messages on standard error; with `--json`, standard output is JSON alone."""

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
"""Columns of a table that goes to a file or another program, which have no width of their own."""


def print_json(content: object) -> None:
    """One JSON value on standard output; what is not a number (NaN) becomes null."""
    print(json.dumps(_without_nan(content), indent=2, ensure_ascii=False))  # noqa: T201 - this is the output


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on standard output below its title; numbers stand to the right, and no path is broken in the title."""
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
    """Sentences on standard output."""
    for line in lines:
        print(line)  # noqa: T201 - this is the output


def print_note(text: str) -> None:
    """A message on standard error."""
    print(f"note: {text}", file=sys.stderr)  # noqa: T201 - this is the output


def print_notes(texts: Iterable[str]) -> None:
    """Messages on standard error."""
    for text in texts:
        print_note(text)


class ProgressBar:
    """A bar on standard error with rate, time left and the newest values; snapshots leave a line of their own."""

    def __init__(self, title: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn(title),
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
        self._begin = (0.0, 0)
        self._step = self._total = 0
        self._values = ""

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._progress.stop()

    def show(self, step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        """Move the bar to `step`, show `values` and what takes long now; a snapshot's values stay on the screen.

        Without values the newest stay beside the bar; without a terminal, only what says something is a line.
        """
        now = time.monotonic()
        if not self._begin[0] or step < self._step or total != self._total:  # the next of several runs starts anew
            self._begin, self._values = (now, step), ""
        self._step, self._total = step, total
        elapsed = now - self._begin[0]
        rate = _rate(step - self._begin[1], elapsed)
        newest = "  ".join(f"{name} {_cell(_whole(value))}" for name, value in values.items())
        stays = "snapshot" in values
        if values:
            self._values = "" if stays else newest
        beside = "  ".join(word for word in (self._values, doing) if word)
        self._progress.update(self._task, completed=step, total=total, rate=rate, values=beside)
        if stays or (self._plain and (values or doing)):
            words = [f"step {step:,} of {total:,}", "" if stays else rate, newest, doing]
            line = "  ".join(word for word in words if word)
            self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)


def _rate(steps: int, seconds: float) -> str:
    """Steps in a second, or, if they are slow, seconds of a step; nothing before the first."""
    if steps <= 0 or seconds <= 0.0:
        return ""
    return f"{steps / seconds:.1f} steps/s" if steps > seconds else f"{_cell(seconds / steps)} s a step"


def _whole(value: float) -> float:
    """A count as a whole number: there are 34 heads, not 34.0."""
    return int(value) if float(value).is_integer() else value


def _cell(value: object) -> str:
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
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {key: _without_nan(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_nan(item) for item in value]
        case _:
            return value
