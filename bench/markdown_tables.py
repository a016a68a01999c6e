"""Rows and differences as Markdown, for every table of bench/."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of a header and rows, all as long as each other."""
    first, *others = (f"| {' | '.join(cells)} |" for cells in (header, *rows))
    return "\n".join([first, "|---" * len(header) + "|", *others])


def points(value: float, low: float, high: float) -> str:
    """A difference and its interval."""
    return f"{value:+z.1f} ({low:+z.1f} to {high:+z.1f})"  # never -0.0
