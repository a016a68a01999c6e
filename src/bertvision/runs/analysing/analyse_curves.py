"""Curves from the files of runs: over training steps, over shares of the training data, and over snapshots."""

from collections.abc import Mapping, Sequence
from typing import Any

from bertvision.analysis.curves import (
    DataCurve,
    FreezeCurve,
    LearningCurves,
    fit_curves,
    freeze_curve,
    less_data_curves,
    tune_curves,
)
from bertvision.encoder.snapshot import Snapshot
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.runs.fitting.freeze_points import FREEZE_POINTS
from bertvision.runs.folder import RunFolder
from bertvision.runs.judging.finished import FinishedRun
from bertvision.tasks.files import read_json
from bertvision.tasks.task import Task

HIDDEN = ("step", "snapshot")
"""Fields in the log lines of snapshots that are no metrics."""


def logged_metric(run: FinishedRun, task: Task) -> str:
    """The name under which a tuned run, or fits on its snapshots, logged the main metric.

    Of questions F1 at the fitted threshold, if it was logged; the held-out metric, if there was no dev split.
    """
    table = _freeze_table(run)
    if table is not None:
        points = table["points"]
        logged = [point["own"] or {} for point in points]
        logged += [point["head"]["metrics"] for point in points if point["head"] is not None]
    else:
        logged = [line for line in RunFolder(run.folder).lines() if "snapshot" in line]
    known = {name for metrics in logged for name in metrics if name not in HIDDEN}
    names = ["f1_fitted", "f1"] if task.kind == "spans" else [task.main_metric]
    return next((name for name in [*names, *(HELD_OUT_PREFIX + name for name in names)] if name in known), names[-1])


def learning_curves(run: FinishedRun, metric: str) -> LearningCurves:
    """Loss and score over the training steps; `metric` is the one of a tuned run, fits log their main one."""
    lines = RunFolder(run.folder).lines()
    if run.heads:
        names = [f"{number:03}-{spec.head}" for number, spec in enumerate(run.request.heads)]
        return fit_curves(lines, names)
    return tune_curves(lines, metric)


def data_curves(rows: Sequence[Mapping[str, Any]], metric: str) -> tuple[DataCurve, ...]:
    """Score over the share of training examples, for heads that were fitted on several shares.

    Args:
        rows: rows of a leaderboard, with `score` on the split.
        metric: name of the score.
    """
    scored = [{**row, "metrics": {metric: row["score"]}} for row in rows]
    return tuple(curve for curve in less_data_curves(scored, metric) if len(curve.fractions) > 1)


def snapshot_curve(run: FinishedRun, metric: str) -> FreezeCurve | None:
    """Score over the snapshots of a tuned run, if this run is one of the fits on them; else None."""
    table = _freeze_table(run)
    return None if table is None else freeze_curve(table, metric)


def tuned_parameters(own: Snapshot | None) -> int | None:
    """Number of trained parameters, own output included, of a snapshot's run; None without one, or if unfinished."""
    result = None if own is None else RunFolder(own.run).result()
    return None if result is None else int(result["trainable"])


def tuned_seconds(own: Snapshot) -> float | None:
    """Seconds of training until a snapshot; None if its run's log has none."""
    lines: list[dict[str, Any]] = RunFolder(own.run).lines()
    spent = [float(line["seconds"]) for line in lines if line["step"] <= own.step and "seconds" in line]
    return spent[-1] if spent else None


def _freeze_table(run: FinishedRun) -> dict[str, Any] | None:
    """The table of `fit_snapshots`, if the run is one of its fits; else None."""
    path = run.folder.parent / FREEZE_POINTS
    table = read_json(path) if run.heads and path.is_file() else None
    if not isinstance(table, dict) or run.folder.name not in [point["folder"] for point in table["points"]]:
        return None
    return table
