"""different_settings, head_labels: what heads of the same name differ in, besides rate, seed and share of data."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bertvision.training.options import HEAD_TRAINING


def different_settings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """For every row the settings in which rows of the same head differ, such as `size=64 warmup=0.1`; else empty.

    Args:
        rows: rows of a leaderboard. Settings are options of the head, and training options except the learning rate;
            leaderboards of earlier versions have no training options but that.
    """
    of_head: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        of_head[row["head"]].append(_settings(row))
    return [
        " ".join(
            f"{name}={word}"
            for name, word in _settings(row).items()
            if any(other.get(name) != word for other in of_head[row["head"]])
        )
        for row in rows
    ]


def head_labels(heads: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The names of heads with the options in which heads of the same name differ, such as `adapter_pool size=64`.

    Args:
        heads: the name of each head, and its options.
    """
    rows = [{"head": head, "options": options} for head, options in heads]
    return [f"{row['head']} {words}".rstrip() for row, words in zip(rows, different_settings(rows), strict=True)]


def _settings(row: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a row, as words by name."""
    training = {name: row[name] for name in HEAD_TRAINING if name in row and name != "lr"}
    values = {**row.get("options", {}), **training}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
