"""FinishedRun: a run that can be evaluated, be it heads of a fit or a snapshot of a tuned run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertvision.encoder.load import mean_pooled
from bertvision.encoder.snapshot import Snapshot, find_snapshot, split_snapshot
from bertvision.errors import BertVisionError
from bertvision.heads.options import ATTENTION
from bertvision.runs.fitting.fit import LEADERBOARD
from bertvision.runs.fitting.fit_request import STREAM, FitRequest
from bertvision.runs.folder import CONFIG, RESULT, RunFolder
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuned_split import learnt_from, seen_notice, tuned_run
from bertvision.tasks.files import read_json
from bertvision.tasks.load import is_path
from bertvision.training.trainee import HeadSpec
from bertvision.typed_json import from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that can be evaluated.

    Attributes:
        name: as it was asked for: `RUN` or `RUN@0.3`.
        folder: folder of the run.
        place: folder of a snapshot's results below those of its run, such as `at-0.3`; empty for a fit.
        request: what heads on its encoder depend on; states are streamed from one encoder.
        heads: a row of the leaderboard for each head, by the name of its folder; none for a tuned run.
        own: the snapshot whose own output stands beside the heads, where there is one.
        weights: fingerprint of its encoder, where the run says it.
        notices: what the user should know.
    """

    name: str
    folder: Path
    place: str
    request: FitRequest
    heads: Mapping[str, Mapping[str, Any]]
    own: Snapshot | None
    weights: str | None
    notices: tuple[str, ...]

    @property
    def evaluations(self) -> Path:
        """Where its evaluations are, one for each split."""
        return self.folder / "evaluation" / self.place

    @property
    def ensembles(self) -> Path:
        """Where ensembles of its heads are, some for each split."""
        return self.folder / "ensembles" / self.place

    def head_folder(self, name: str) -> Path:
        """Where the head of that name is."""
        return self.folder / str(self.heads[name]["folder"])


def open_run(name: str | Path) -> FinishedRun:
    """Find a finished run: `RUN` of `bertvision fit`, `RUN` or `RUN@0.3` of `bertvision tune`.

    Raises:
        BertVisionError: there is none, or it is not finished.
    """
    name = str(name)
    run, snapshot = split_snapshot(name)
    folder = RunFolder(run)
    if not (run / CONFIG).is_file():
        several = sorted(str(path.parent) for path in run.glob(f"*/{CONFIG}"))
        if several:
            raise BertVisionError(f"{run} holds several runs. Name one of them: {', '.join(several)}.")
        raise BertVisionError(f"{run} holds no run: {CONFIG} is not there. Make one: bertvision fit, bertvision tune.")
    asked = folder.request()
    if "space" in asked:
        raise BertVisionError(f"{run} is a search. Name the run of its best trial: {run / 'best'}.")
    if folder.result() is None and not snapshot:  # a snapshot is whole, whatever becomes of its run
        raise BertVisionError(f"{run} is not finished. Go on with it: its command with --resume.")
    asked = _seen_from_here(folder, asked)
    if "heads" in asked:
        if snapshot:
            raise BertVisionError(f"{run} is a fit of heads and has no snapshots. Name it without {snapshot}.")
        return _fit(run, asked, folder.weights())
    return _tuned(name, run, asked)


def _seen_from_here(folder: RunFolder, asked: dict[str, Any]) -> dict[str, Any]:
    """What a run was asked for, with relative paths of data and encoder as they lead there from here."""
    data = folder.path_from_here(asked["data"]) if is_path(asked["data"]) else asked["data"]
    return asked | {"data": data, "encoder": folder.encoder_from_here(asked["encoder"])}


def _fit(run: Path, asked: dict[str, Any], weights: str) -> FinishedRun:
    request = from_json(FitRequest, asked | {"pairs": asked["pairs"] or "auto"})
    if asked["pairs"] is None:  # what nobody asked for meant before texts could be aligned
        apart = mean_pooled(request.main_encoder) and request.pool != ATTENTION
        request = replace(request, pairs="apart" if apart else "together")
    # one encoder gives the states of all examples that none has learned from
    request = replace(request, encoder=request.main_encoder, cross_fit=None, source=STREAM)
    leaderboard = read_json(run / LEADERBOARD)
    if not isinstance(leaderboard, list):
        raise BertVisionError(f"{run / LEADERBOARD} holds no list. Fit again with another --out.")
    own = find_snapshot(request.encoder)
    if own is not None and not (own.head and learnt_from(tuned_run(request.encoder), request.task, request.data)):
        own = None
    return FinishedRun(
        name=str(run),
        folder=run,
        place="",
        request=request,
        heads={Path(row["folder"]).name: row for row in sorted(leaderboard, key=lambda row: row["folder"])},
        own=own,
        weights=weights.partition("+")[0],  # of a cross-fit's encoders, the one that learned from all folds
        notices=() if own is None else seen_notice(request),
    )


def _tuned(name: str, run: Path, asked: dict[str, Any]) -> FinishedRun:
    snapshot = find_snapshot(name)
    if snapshot is None:
        raise BertVisionError(f"{run} has no snapshot. Tune it again: bertvision tune {asked['task']}")
    if not snapshot.head:
        raise BertVisionError(
            f"{run} was not tuned for one task with one head, so there is no output to evaluate; {RESULT} has its "
            f"scores. Fit heads on it: bertvision fit TASK --encoder {run}"
        )
    tuned = from_json(TuneRequest, asked)
    request = FitRequest(
        **(tuned.data_fields() | {"encoder": f"{run}@{snapshot.folder.name}"}),
        heads=(HeadSpec(head=snapshot.head, fraction=tuned.fraction),),
        seed=tuned.options.seed,
        held_out=tuned.held_out,
        pool="mean" if snapshot.pool == "mean" else "cls",
        pairs="together",
        source=STREAM,
        dtype=tuned.dtype,
    )
    return FinishedRun(
        name=request.encoder,
        folder=run,
        place=f"at-{snapshot.folder.name}",
        request=request,
        heads={},
        own=snapshot,
        weights=None,
        notices=(),
    )
