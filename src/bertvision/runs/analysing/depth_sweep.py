"""Prefix heads of a run by depth: quality against the part of the encoder that runs, and its measured seconds."""

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
"""Rows of a leaderboard, with `name` of the model and its `score`."""


def depth_sweeps(rows: Rows, seconds: InferenceSeconds, *, layers: int) -> tuple[DepthSweep, ...]:
    """One sweep for all heads that differ in their depth and seed alone, where there are several depths.

    Args:
        rows: rows of a leaderboard, with `name` of the model, and `score` on the split or None.
        seconds: seconds of encoder and heads.
        layers: layers of the encoder, without the embedding output.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        first = str(row["options"][LAYERS]).partition("..")[0]
        key = json.dumps([row["head"], _others(row), first, row["lr"], row["fraction"]], sort_keys=True)
        groups.setdefault(key, []).append(row)
    sweeps = [_sweep(group, seconds, layers) for group in groups.values()]
    return tuple(sweep for sweep in sweeps if len(sweep.points) > 1)


def _sweep(rows: Rows, seconds: InferenceSeconds, layers: int) -> DepthSweep:
    by_depth: dict[int, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (int(row["depth"]), int(row["seed"]))):
        by_depth.setdefault(int(row["depth"]), []).append(row)
    deepest = max(by_depth)
    head = _seconds(by_depth[deepest], seconds, layers)
    first = rows[0]
    return DepthSweep(
        head=str(first["head"]),
        options=_others(first),
        lr=float(first["lr"]),
        fraction=float(first["fraction"]),
        points=tuple(_point(depth, mine, seconds, layers, head) for depth, mine in by_depth.items()),
        cumulative=_cumulative(by_depth),
    )


def _point(depth: int, rows: Rows, seconds: InferenceSeconds, layers: int, whole: float | None) -> DepthPoint:
    scores = [row["score"] for row in rows]
    spent = _seconds(rows, seconds, depth)
    return DepthPoint(
        depth=depth,
        score=None if None in scores else seed_means(np.array(scores, dtype=np.float64)[:, None])[0],
        cost_share=depth / layers,
        seconds=spent,
        seconds_share=None if spent is None or not whole else spent / whole,
        models=tuple(str(row["name"]) for row in rows),
    )


def _seconds(rows: Rows, seconds: InferenceSeconds, depth: int) -> float | None:
    """Encoder up to a depth, and one of the heads: the mean over seeds."""
    found = [seconds.total(str(row["name"]), depth) for row in rows]
    known = [one for one in found if one is not None]
    return float(np.mean(known)) if known else None


def _cumulative(by_depth: Mapping[int, Rows]) -> CumulativeScores | None:
    """What each further layer adds, where every layer has the same seeds, and all have a score."""
    depths = list(by_depth)
    seeds = {tuple(int(row["seed"]) for row in rows) for rows in by_depth.values()}
    scores = [[row["score"] for row in rows] for rows in by_depth.values()]
    whole = depths == list(range(depths[0], depths[0] + len(depths)))
    if len(depths) < 2 or len(seeds) > 1 or not whole or any(None in mine for mine in scores):
        return None
    return cumulative_scores(depths, np.array(scores, dtype=np.float64).T)


def _others(row: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a head but the layers that it reads."""
    return {name: value for name, value in row["options"].items() if name != LAYERS}
