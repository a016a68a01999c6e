"""FinishedRun: a run that can be evaluated: the heads of a fit, or a snapshot of a tuned run."""

from collections.abc import Iterable, Mapping
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
        name: `RUN`, or `RUN@0.3` for a snapshot.
        folder: folder of the run.
        place: subfolder for the results of a snapshot, such as `at-0.3`; empty for a fit.
        request: settings to compute its outputs with, for a tuned run too: states are streamed from one encoder.
        heads: a row of the leaderboard for each head, by the name of its folder; empty for a tuned run.
        own: the snapshot whose own output is evaluated, beside the heads of a fit or alone; None if there is none.
        weights: fingerprint of its encoder; None for a tuned run.
        notices: messages for the user.
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
        """The folder of its evaluations, with one folder per split."""
        return self.folder / "evaluation" / self.place

    @property
    def ensembles(self) -> Path:
        """The folder of ensembles with its heads, with one folder per split."""
        return self.folder / "ensembles" / self.place

    def head_folder(self, name: str) -> Path:
        """The folder of the head of that name."""
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
        _refuse_several(run, run.glob(f"*/{CONFIG}"))
        raise BertVisionError(f"{run} holds no run: {CONFIG} is not there. Make one: bertvision fit, bertvision tune.")
    config = folder.request()
    if "space" in config:
        raise BertVisionError(f"{run} is a search. Name the run of its best trial: {run / 'best'}.")
    if "task" not in config:  # the folder of `bertvision run glue`
        _refuse_several(run, run.glob(f"*/*/{CONFIG}"))
    if folder.result() is None and not snapshot:  # a snapshot is complete even if its run is not
        raise BertVisionError(f"{run} is not finished. Go on with it: its command with --resume.")
    config = _seen_from_here(folder, config)
    if "heads" in config:
        if snapshot:
            raise BertVisionError(f"{run} is a fit of heads and has no snapshots. Name it without {snapshot}.")
        return _open_fit(run, config, folder.weights())
    return _open_tuned(name, run, config)


def _refuse_several(folder: Path, configs: Iterable[Path]) -> None:
    """Refuse a folder of several runs, and name them by the folders of their configurations."""
    runs = sorted(str(path.parent) for path in configs)
    if runs:
        raise BertVisionError(f"{folder} holds several runs. Name one of them: {', '.join(runs)}.")


def _seen_from_here(folder: RunFolder, config: dict[str, Any]) -> dict[str, Any]:
    """The request of a run, with relative paths of data and encoder rewritten for the working directory."""
    data = folder.path_from_here(config["data"]) if is_path(config["data"]) else config["data"]
    return config | {"data": data, "encoder": folder.encoder_from_here(config["encoder"])}


def _open_fit(run: Path, config: dict[str, Any], weights: str) -> FinishedRun:
    request = from_json(FitRequest, config | {"pairs": config["pairs"] or "auto"})
    if config["pairs"] is None:  # a run from before `aligned` existed, when no value meant this
        apart = mean_pooled(request.main_encoder) and request.pool != ATTENTION
        request = replace(request, pairs="apart" if apart else "together")
    # examples outside the training part are encoded by one encoder, also in a cross-fit
    request = replace(request, encoder=request.main_encoder, cross_fit=None, source=STREAM)
    leaderboard = read_json(run / LEADERBOARD)
    if not isinstance(leaderboard, list):
        raise BertVisionError(f"{run / LEADERBOARD} holds no list. Fit again with another --out.")
    own = find_snapshot(request.encoder)
    learnt = learnt_from(tuned_run(request.encoder), request.task, request.data)
    if own is not None and not (own.head and own.task == request.task and learnt):
        own = None
    return FinishedRun(
        name=str(run),
        folder=run,
        place="",
        request=request,
        heads={Path(row["folder"]).name: row for row in sorted(leaderboard, key=lambda row: row["folder"])},
        own=own,
        weights=weights.partition("+")[0],  # of a cross-fit's encoders, the one that was trained on all folds
        notices=seen_notice(request),
    )


def _open_tuned(name: str, run: Path, config: dict[str, Any]) -> FinishedRun:
    snapshot = find_snapshot(name)
    if snapshot is None:
        raise BertVisionError(f"{run} has no snapshot. Tune it again: bertvision tune {config['task']}")
    if not snapshot.head:
        raise BertVisionError(
            f"{run} was not tuned for one task with one head, so there is no output to evaluate; {RESULT} has its "
            f"scores. Fit heads on it: bertvision fit TASK --encoder {run}"
        )
    tuned = from_json(TuneRequest, config)
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
