"""fit_snapshots: fit heads on every snapshot of a tuned run, and find the point where more tuning stops paying off."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertvision.amounts import in_words
from bertvision.atomic import write_json
from bertvision.encoder.snapshot import Snapshot, find_snapshot, list_snapshots
from bertvision.errors import BertVisionError, DivergedError
from bertvision.runs.fitting.fit import FitResult, fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.folder import RunFolder, check_series
from bertvision.runs.tuned_split import check_unseen, learnt_from
from bertvision.runs.watch import Show, telling

FORMAT = 1
FREEZE_POINTS = "freeze_points.json"
TOLERANCE = 0.01
"""Default share of the best later score by which the score at the freeze point may be lower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeResult:
    """The result of `fit_snapshots`.

    Attributes:
        out: folder of the fits.
        table: content of its `freeze_points.json`: a point for every snapshot, and the freeze point.
        notices: messages for the user.
    """

    out: Path
    table: dict[str, Any]
    notices: tuple[str, ...]


def fit_snapshots(  # noqa: PLR0913 - what it depends on, by keyword
    request: FitRequest,
    out: str | Path,
    *,
    snapshots: Sequence[float] | None = None,
    tolerance: float = TOLERANCE,
    resume: bool = False,
    show: Show | None = None,
) -> FreezeResult:
    """Fit the heads on the frozen encoder of every snapshot, and find the freeze point.

    Heads and the freeze point are chosen by held-out training examples, on which the run must not have been trained.

    Args:
        request: the settings of every fit; its encoder is the folder of a tuned run.
        out: folder of the fits, each in a folder such as `at-0.3`.
        snapshots: the snapshots, by epochs of tuning; None takes all.
        tolerance: share of the best later score by which the score at the freeze point may be lower.
        resume: continue interrupted fits.
        show: progress callback.

    Raises:
        BertVisionError: `tolerance`, the request and `snapshots` do not go together, or as `fit_heads`; existing files
            are kept.
    """
    if not 0.0 <= tolerance < 1.0:
        raise BertVisionError(f"--tolerance is {tolerance:g}, at least 0 and less than 1 is expected.")
    if request.store is not None:
        raise BertVisionError("a store holds the states of one snapshot. Use --from stream with --snapshots.")
    if request.cross_fit is not None:
        raise BertVisionError("--cross-fit takes one snapshot, such as --encoder RUN@0.3, and no --snapshots.")
    run = Path(request.encoder)
    chosen = _chosen(run, snapshots)
    request.check()
    own: dict[float, dict[str, Any]] = {}
    if learnt_from(run, request.task, request.data):
        check_unseen(request, run)
        own = _own_metrics(run) if chosen[0].task == request.task else {}
    folder = Path(out)
    check_series(folder, resume=resume)
    points, notices = [], []
    for snapshot in chosen:
        name = snapshot.folder.name
        place = folder / f"at-{name}"
        at_snapshot = replace(request, encoder=f"{run}@{name}")
        try:
            fitted = fit_heads(at_snapshot, place, resume=resume, show=telling(show, f"snapshot {name}"))
        except DivergedError as error:  # heads may still train well on other snapshots
            fitted = FitResult(run=place, leaderboard=[], notices=(f"snapshot {name}: {error}",))
        points.append(_point(snapshot, fitted, own.get(snapshot.fraction)))
        notices += [notice for notice in fitted.notices if notice not in notices]
    table = {
        "format": FORMAT,
        "run": str(run),
        "task": request.task,
        "schedule": chosen[0].schedule,
        "tolerance": tolerance,
        "freeze_point": freeze_point(points, tolerance),
        "points": points,
    }
    write_json(folder / FREEZE_POINTS, table)
    if chosen[0].schedule != "constant":
        epochs = in_words(chosen[0].total_epochs, "epoch")
        notices.append(
            f"{run} was tuned with a {chosen[0].schedule} schedule over {epochs}: a run of "
            "fewer epochs in all may end elsewhere than its snapshot. Snapshots at a constant rate compare best."
        )
    return FreezeResult(out=folder, table=table, notices=tuple(notices))


def freeze_point(points: Sequence[Mapping[str, Any]], tolerance: float) -> dict[str, Any] | None:
    """The earliest point whose held-out score is within the tolerance of the best later one; None if none has a score.

    Args:
        points: in order of epochs; each with `snapshot`, `epochs` and `held_out`, a score or None.
        tolerance: share of the best later score by which it may be lower.
    """
    scored = [point for point in points if point["held_out"] is not None]
    for number, point in enumerate(scored):
        later = max(scored[number + 1 :], key=lambda other: other["held_out"], default=None)
        best = -math.inf if later is None else later["held_out"]
        if later is None or point["held_out"] >= best - tolerance * abs(best):
            return {
                "snapshot": point["snapshot"],
                "epochs": point["epochs"],
                "best_later": None if later is None else later["snapshot"],
                "gained_beyond": None if later is None else best - point["held_out"],
            }
    return None


def _chosen(run: Path, snapshots: Sequence[float] | None) -> list[Snapshot]:
    """The snapshots with these epochs, or all, in order of epochs."""
    existing = list_snapshots(run)
    if not existing:
        raise BertVisionError(
            f"--snapshots: {run} is no tuned run with snapshots. Name its folder without @, or make one: "
            "bertvision tune TASK --snapshots 0.1,0.3,1 --out RUN"
        )
    if snapshots is None:
        return existing
    if not snapshots:
        raise BertVisionError("--snapshots names none; 'all', or epochs such as 0.1,0.3,1 are expected.")
    found = [find_snapshot(f"{run}@{epochs:g}") for epochs in sorted(set(snapshots))]
    return [snapshot for snapshot in found if snapshot is not None]


def _own_metrics(run: Path) -> dict[float, dict[str, Any]]:
    """Metrics of the run's own output at each snapshot, by its epochs, from the log."""
    lines: list[dict[str, Any]] = [line for line in RunFolder(run).lines() if "snapshot" in line]
    no_metrics = ("step", "snapshot")
    return {line["snapshot"]: {name: line[name] for name in line if name not in no_metrics} for line in lines}


def _point(snapshot: Snapshot, fitted: FitResult, own: dict[str, Any] | None) -> dict[str, Any]:
    """A point of the table, with the best head by held-out score; ties go to the smallest head, never by dev scores."""

    def order(row: Mapping[str, Any]) -> tuple[float, int, str]:
        return -row["held_out"] if row["held_out"] is not None else math.inf, row["parameters"], row["folder"]

    best = min(fitted.leaderboard, key=order, default=None)
    return {
        "snapshot": snapshot.folder.name,
        "epochs": snapshot.fraction,
        "steps": snapshot.step,
        "folder": fitted.run.name,
        "own": own,
        "head": best,
        "held_out": None if best is None else best["held_out"],
    }
