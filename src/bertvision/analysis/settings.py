"""different_settings: what heads of the same name in a leaderboard differ in, besides rate, seed and share of data."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from bertvision.training.options import HEAD_TRAINING


def different_settings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """For every row the settings in which rows of the same head differ, such as `size=64 warmup=0.1`; else empty.

    Args:
        rows: rows of a leaderboard. Settings are options of the head, and training options except the learning rate;
            leaderboards of earlier versions have no training options but that.
    """
    settings = [_settings(row) for row in rows]
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row, own in zip(rows, settings, strict=True):
        for name, word in own.items():
            found[row["head"], name].add(word)
    return [
        " ".join(f"{name}={word}" for name, word in own.items() if len(found[row["head"], name]) > 1)
        for row, own in zip(rows, settings, strict=True)
    ]


def _settings(row: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a row, as words by name."""
    training = {name: row[name] for name in HEAD_TRAINING if name in row and name != "lr"}
    values = {**row.get("options", {}), **training}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
