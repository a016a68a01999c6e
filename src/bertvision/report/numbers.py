"""Number formatting, the same on the page and in Markdown, LaTeX and model cards."""

import math
from collections.abc import Iterable
from typing import Literal, assert_never

Unit = Literal["percent", "share", "count", "seconds", "number", "p"]
"""Unit of a number: scores of questions are in percent, other scores are shares; p is the p-value of a test."""

NOTHING = "\N{EN DASH}"
"""Text for a missing number."""

SIGNED = ("pearson", "spearman", "matthews", "held_out_mean")
"""Metrics that may be negative; `held_out_mean` is a mean over tasks, which may include such metrics."""

LEAST_P = 0.001
"""Smaller p-values are shown as less than this."""


def show_number(value: float | None, unit: Unit = "number") -> str:
    """A number with the digits that its unit needs; a dash for None and for numbers that are not finite.

    >>> show_number(71.349, "percent"), show_number(0.4375, "share"), show_number(1925, "count")
    ('71.3', '0.438', '1,925')
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    match unit:
        case "percent":
            text = f"{value:.1f}"
        case "share":
            text = f"{value:.3f}"
        case "count":
            text = f"{round(value):,}"
        case "seconds":
            text = f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
        case "number":
            text = f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"
        case "p":
            text = f"{value:.3f}" if value >= LEAST_P else f"<{LEAST_P:g}"
        case _:
            assert_never(unit)
    rounds_to_zero = not text.strip("-0.")
    return text.lstrip("-") if rounds_to_zero else text.replace("-", "\N{MINUS SIGN}")


def show_interval(low: float | None, high: float | None, unit: Unit) -> str:
    """An interval; a dash if an end is None."""
    if low is None or high is None:
        return NOTHING
    return f"{show_number(low, unit)} to {show_number(high, unit)}"


def show_difference(value: float | None, unit: Unit) -> str:
    """A difference, with a plus sign if it is positive."""
    text = show_number(value, unit)
    return f"+{text}" if value is not None and value > 0 and text != NOTHING else text


def metric_words(metric: str, unit: Unit, more: str = "") -> str:
    """Title of an axis: a metric with its unit or range, and `more` in the same brackets."""
    known = "in %" if unit == "percent" else "at most 1" if metric.endswith(SIGNED) else "0 to 1"
    return f"{metric} ({', '.join([known, *([more] if more else [])])})"


def score_unit(metrics: Iterable[str]) -> Unit:
    """The unit of a task's scores: percent for questions, which alone have exact match as a metric; else share."""
    return "percent" if {"exact", "exact_match"} & set(metrics) else "share"
