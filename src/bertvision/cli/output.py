"""Results on standard output, messages on standard error; with `--json`, standard output is JSON alone."""

import json
import math
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 160
"""Columns of a table that goes to a file or another program, which have no width of their own."""


def print_json(content: object) -> None:
    """One JSON value on standard output; what is not a number (NaN) becomes null."""
    print(json.dumps(_without_nan(content), indent=2, ensure_ascii=False))  # noqa: T201 - this is the output


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on standard output; numbers stand to the right."""
    rows = [["yes" if cell is True else "no" if cell is False else cell for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        numeric = all(isinstance(row[number], int | float | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    Console(width=None if sys.stdout.isatty() else PIPED_WIDTH).print(table)


def print_note(text: str) -> None:
    """A message on standard error."""
    print(f"note: {text}", file=sys.stderr)  # noqa: T201 - this is the output


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
