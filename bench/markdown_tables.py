"""Tables and differences as Markdown, for all tables that bench/ writes."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the rows are as long as the header."""
    first, *others = (f"| {' | '.join(cells)} |" for cells in (header, *rows))
    return "\n".join([first, "|---" * len(header) + "|", *others])


def points(value: float, low: float, high: float) -> str:
    """A difference with its confidence interval, such as `+1.2 (+0.3 to +2.1)`; what rounds to 0 has no sign."""
    one, *ends = (f"{number:+z.1f}".replace("+0.0", "0.0") for number in (value, low, high))
    return f"{one} ({' to '.join(ends)})"
