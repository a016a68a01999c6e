"""Depth sweeps: the scores of prefix heads against the part of the encoder that runs, and against measured seconds."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bertvision.analysis.cumulative import CumulativeScores, cumulative_scores
from bertvision.analysis.seeds import seed_means
from bertvision.heads.options import LAYERS
from bertvision.runs.analysing.analysis_record import DepthPoint, DepthSweep
from bertvision.runs.judging.measure_inference import InferenceSeconds

Rows = Sequence[Mapping[str, Any]]
"""Rows of a leaderboard, each with the `name` of its model and the `score` on the split, or None."""


def depth_sweeps(rows: Rows, seconds: InferenceSeconds, *, layers: int) -> tuple[DepthSweep, ...]:
    """One sweep for each set of heads that differ only in depth and seed, and have at least two depths.

    Args:
        rows: rows of a leaderboard.
        seconds: measured seconds of encoder and heads.
        layers: number of the encoder's layers, without the embedding output.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        lowest = str(row["options"][LAYERS]).partition("..")[0]
        training = row["lr"], row.get("training")  # older leaderboards do not tell the latter
        key = json.dumps([row["head"], _other_options(row), lowest, training, row["fraction"]], sort_keys=True)
        groups.setdefault(key, []).append(row)
    sweeps = [_sweep(group, seconds, layers) for group in groups.values()]
    return tuple(sweep for sweep in sweeps if len(sweep.points) > 1)


def _sweep(rows: Rows, seconds: InferenceSeconds, layers: int) -> DepthSweep:
    by_depth: dict[int, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (int(row["depth"]), int(row["seed"]))):
        by_depth.setdefault(int(row["depth"]), []).append(row)
    deepest = max(by_depth)
    full_seconds = _seconds(by_depth[deepest], seconds, layers)
    first = rows[0]
    return DepthSweep(
        head=str(first["head"]),
        options=_other_options(first),
        lr=float(first["lr"]),
        fraction=float(first["fraction"]),
        points=tuple(_point(depth, group, seconds, layers, full_seconds) for depth, group in by_depth.items()),
        cumulative=_cumulative(by_depth),
    )


def _point(depth: int, rows: Rows, seconds: InferenceSeconds, layers: int, full_seconds: float | None) -> DepthPoint:
    """The heads of one depth; `full_seconds` are those of the whole encoder and the deepest head."""
    scores = [row["score"] for row in rows]
    spent = _seconds(rows, seconds, depth)
    return DepthPoint(
        depth=depth,
        score=None if None in scores else seed_means(np.array(scores, dtype=np.float64)[:, None])[0],
        cost_share=depth / layers,
        seconds=spent,
        seconds_share=None if spent is None or not full_seconds else spent / full_seconds,
        models=tuple(str(row["name"]) for row in rows),
    )


def _seconds(rows: Rows, seconds: InferenceSeconds, depth: int) -> float | None:
    """Seconds of the encoder up to a depth and of one head, the mean over seeds; None if no head was timed."""
    totals = [seconds.total(str(row["name"]), depth) for row in rows]
    known = [total for total in totals if total is not None]
    return float(np.mean(known)) if known else None


def _cumulative(by_depth: Mapping[int, Rows]) -> CumulativeScores | None:
    """The score that each further layer adds; None if a depth in between is missing, or has other seeds or no score."""
    depths = list(by_depth)
    seeds = {tuple(int(row["seed"]) for row in rows) for rows in by_depth.values()}
    scores = [[row["score"] for row in rows] for rows in by_depth.values()]
    without_gaps = depths == list(range(depths[0], depths[0] + len(depths)))
    if len(depths) < 2 or len(seeds) > 1 or not without_gaps or any(None in row for row in scores):
        return None
    return cumulative_scores(depths, np.array(scores, dtype=np.float64).T)


def _other_options(row: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a head without the layers that it reads."""
    return {name: value for name, value in row["options"].items() if name != LAYERS}
