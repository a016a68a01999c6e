"""Tables of fitted heads: the leaderboard of a fit, and the freeze points of a tuned run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertvision.amounts import in_words
from bertvision.analysis.settings import different_settings
from bertvision.cli.output import print_table
from bertvision.evaluation.held_out import HELD_OUT_PREFIX

SHOWN = (
    "f1",
    "f1_fitted",
    "best_f1",
    "exact",
    "exact_match",
    "accuracy",
    "matthews",
    "micro_f1",
    "macro_f1",
    "subset_accuracy",
    "pearson",
    "spearman",
)
"""The metrics that are shown; for questions in this order, for other tasks in the order of the task."""

EXACT = ("exact", "exact_match")
"""Metrics that only questions have."""


def print_leaderboard(run: Path, leaderboard: Sequence[Mapping[str, Any]]) -> None:
    """Print a row per head of a fit, best first."""
    values = [row["metrics"] for row in leaderboard]
    metrics = shown_metrics(values) or shown_metrics(values, HELD_OUT_PREFIX)
    metrics = metrics or list(dict.fromkeys(name for of_head in values for name in of_head))
    settings = different_settings(leaderboard)
    columns = ["head", *["settings"] * any(settings)]
    rows = [
        [
            *[row["head"], words][: len(columns)],
            "solved" if row.get("solved") else row["lr"],
            *(row[name] for name in ("seed", "fraction", "parameters", "seconds")),
            *(row["metrics"].get(name) for name in metrics),
        ]
        for row, words in zip(leaderboard, settings, strict=True)
    ]
    print_table(
        f"{run}: {in_words(len(rows), 'head')}, best first",
        [*columns, "lr", "seed", "fraction", "parameters", "seconds", *metrics],
        rows,
    )


def print_freeze_points(table: Mapping[str, Any]) -> None:
    """Print a row per snapshot: the metrics of the run's own output, and those of the best head fitted on it."""
    points = table["points"]
    heads = [point["head"] for point in points if point["head"] is not None]
    metrics = [name for name in shown_metrics([head["metrics"] for head in heads]) if name not in EXACT]
    freeze = table["freeze_point"]
    rows = [
        [
            point["epochs"],
            *((point["own"] or {}).get(name) for name in metrics),
            "" if point["head"] is None else point["head"]["head"],
            *(None if point["head"] is None else point["head"]["metrics"].get(name) for name in metrics),
            point["held_out"],
            "freeze here" if freeze is not None and point["snapshot"] == freeze["snapshot"] else "",
        ]
        for point in points
    ]
    own = [f"own {name}" for name in metrics]
    print_table(_freeze_title(table), ["epochs", *own, "best head", *metrics, "held out", ""], rows)


def shown_metrics(metrics: Sequence[Mapping[str, Any]], prefix: str = "") -> list[str]:
    """Names of the metrics to show for a task, its main metric first.

    Args:
        metrics: metrics of models for one task, in its order; of questions in the order of the official script.
        prefix: prefix of the names, such as `HELD_OUT_PREFIX`.
    """
    names = list(dict.fromkeys(name for of_model in metrics for name in of_model))
    shown = [prefix + name for name in SHOWN if prefix + name in names]
    if any(prefix + name in names for name in EXACT):
        return shown
    return [name for name in names if name in shown]


def _freeze_title(table: Mapping[str, Any]) -> str:
    freeze, share = table["freeze_point"], f"{table['tolerance']:.3g} of the score"
    if freeze is None:
        return f"{table['run']}: no head has a held-out score"
    epochs = in_words(freeze["epochs"], "epoch")
    if freeze["best_later"] is None:
        return f"{table['run']}: up to the last snapshot, {epochs}, more tuning gained over {share}"
    return (
        f"{table['run']}: tuning beyond {epochs} gained {freeze['gained_beyond']:.3g} on held-out "
        f"examples (snapshot {freeze['best_later']}), at most {share}"
    )
