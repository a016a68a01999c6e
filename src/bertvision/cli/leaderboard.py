"""Tables of fitted heads: the leaderboard of a fit, and the freeze points of a tuned run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertvision.cli.output import print_table
from bertvision.runs.amounts import in_words

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
"""Of all metrics, those that say how good a head is."""


def print_leaderboard(run: Path, leaderboard: Sequence[Mapping[str, Any]]) -> None:
    """Every head of a fit, best first."""
    metrics = _shown([row["metrics"] for row in leaderboard])
    metrics = metrics or sorted({name for row in leaderboard for name in row["metrics"]})
    rows = [
        [row["head"], row["lr"], row["seed"], row["fraction"], row["parameters"], row["seconds"]]
        + [row["metrics"].get(name) for name in metrics]
        for row in leaderboard
    ]
    print_table(
        f"{run}: {in_words(len(rows), 'head')}, best first",
        ["head", "lr", "seed", "fraction", "parameters", "seconds", *metrics],
        rows,
    )


def print_freeze_points(table: Mapping[str, Any]) -> None:
    """A row for each snapshot: what the run's own output reached, and what the best head on it did."""
    points = table["points"]
    heads = [point["head"] for point in points if point["head"] is not None]
    metrics = [name for name in _shown([head["metrics"] for head in heads]) if not name.startswith("exact")]
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


def _shown(metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    return [name for name in SHOWN if any(name in some for some in metrics)]
