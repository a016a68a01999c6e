"""HeadTrials: the heads of a group of trials are trained in one pass over a frozen encoder; the worst are pruned."""

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, final

import optuna
from optuna.trial import FrozenTrial

from bertvision.atomic import write_json
from bertvision.errors import BertVisionError
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.heads import blank_head
from bertvision.inference.shared_rows import SharedRows
from bertvision.provenance import provenance
from bertvision.runs.fitting.fit import LEADERBOARD, build_trainee, check_fit, fit_heads, learn_heads
from bertvision.runs.fitting.fit_run import FitRun
from bertvision.runs.fitting.frozen import FrozenTask, freeze_task
from bertvision.runs.fitting.head_specs import fits_kind
from bertvision.runs.folder import RunFolder
from bertvision.runs.searching.search_groups import Group
from bertvision.runs.searching.search_request import SearchRequest
from bertvision.runs.searching.search_study import (
    FAILURE,
    FOLDER,
    PROVENANCE,
    SECONDS,
    SOLVED,
    notes_of,
    open_trial,
    report,
    tell,
)
from bertvision.runs.watch import Show
from bertvision.tasks.files import read_json
from bertvision.training.checkpoint import remove_checkpoints
from bertvision.training.trainee import HeadSpec

PRUNED = "pruned"


@final
class HeadTrials:
    """Runs trials of heads on one frozen encoder; where heads read one row per text, texts are encoded only once."""

    def __init__(self, request: SearchRequest, show: Show | None) -> None:
        """Load data and encoder.

        Raises:
            BertVisionError: they cannot be loaded, or the request or a head of the space does not suit the task.
        """
        self._request = request
        self._show = show
        fit = request.fit(tuple(HeadSpec(head=head, fraction=request.fraction) for head in request.space.heads))
        fit.check()
        self._frozen = _encoded(freeze_task(fit))
        task = self._frozen.task
        for head in request.space.heads:
            if not fits_kind(head, task.kind):
                raise BertVisionError(
                    f"head '{head}' is not for {task.kind}, which {task.name} asks for. Leave it out."
                )
        check_fit(self._frozen)
        self._rungs = request.rung_epochs(self._frozen.plan().per_epoch)

    def run(self, group: Group, study: optuna.Study) -> None:
        """Train the heads of a group, and store their results in the study.

        Raises:
            BertVisionError: a file cannot be written; the same command continues.
        """
        numbers = self._buildable(study, group.numbers)
        if not numbers:
            return
        rungs = self._rungs
        specs = tuple(self._spec(open_trial(study, number).params) for number in numbers)
        request = self._request.fit(specs, tuple(rungs)[:-1])
        frozen = replace(self._frozen, request=request)
        trainees = [build_trainee(spec, frozen, request) for spec in specs]
        folder = RunFolder(group.path)
        folder.begin(asdict(request), frozen.fingerprint)
        run = FitRun(folder, frozen, trainees, self._show)
        learn_heads(run, watcher=_Rungs(run, [open_trial(study, number) for number in numbers], rungs))
        solved = run.judge([number for number in range(len(trainees)) if number not in run.trained], 0)
        origin = provenance()
        for place, (number, trainee) in enumerate(zip(numbers, trainees, strict=True)):
            value = solved[place] if place in solved else run.best(place)
            notes: dict[str, object] = {
                SECONDS: round(trainee.watch.seconds, 6),
                SOLVED: place in solved,
                PROVENANCE: origin,
            }
            notes[FOLDER] = f"{group.path.parent.name}/{group.path.name}/{run.place(place).relative_to(group.path)}"
            if trainee.failure is None and (value is None or not math.isfinite(value)):
                notes[FAILURE] = "its score is not defined"
            elif trainee.failure is not None and trainee.failure != PRUNED:
                notes[FAILURE] = trainee.failure
            tell(study, number, value if trainee.failure is None and FAILURE not in notes else None, notes=notes)
        remove_checkpoints(group.path)  # only now that the results are stored

    def keep(self, trial: FrozenTrial, folder: Path, best: Path) -> None:
        """Make a fit with the head of one trial, and its scores on dev.

        Args:
            trial: the trial.
            folder: folder of the search.
            best: folder of the fit.

        Raises:
            BertVisionError: a file cannot be written.
        """
        spec, notes = self._spec(trial.params), notes_of(trial)
        request = self._request.fit((spec,), tuple(self._rungs)[:-1])
        frozen = replace(self._frozen, request=request)
        head = folder / str(notes[FOLDER])
        if not head.is_dir():  # on another machine: fit it again, which gives the same head as among others
            fit_heads(request, best, show=self._show, frozen=frozen)
            return
        trainee = build_trainee(spec, frozen, request)
        trainee.watch.seconds = float(notes[SECONDS])
        kept = RunFolder(best)
        kept.begin(asdict(request), frozen.fingerprint, held_out=frozen.held_out_digest)
        run = FitRun(kept, frozen, [trainee], self._show)
        if not notes[SOLVED]:
            run.trained.append(0)
        shutil.copytree(head, run.place(0))
        write_json(best / LEADERBOARD, run.leaderboard())
        kept.finish({"heads": 1})

    def score(self, best: Path) -> dict[str, Any]:
        """The scores on dev of a fit that `keep` made, by name; empty without a dev split."""
        if self._frozen.dev is None:
            return {}
        metrics: dict[str, Any] = read_json(best / LEADERBOARD)[0]["metrics"]
        return {name: value for name, value in metrics.items() if not name.startswith(HELD_OUT_PREFIX)}

    def _spec(self, params: Mapping[str, Any]) -> HeadSpec:
        return self._request.spec(self._request.space.point(params))

    def _buildable(self, study: optuna.Study, numbers: Sequence[int]) -> list[int]:
        """The trials whose head can be built; those with options that exclude each other end as failures."""
        buildable = []
        for number in numbers:
            spec = self._spec(open_trial(study, number).params)
            try:
                blank_head(spec.head, self._frozen.shape, spec.options)
            except BertVisionError as error:
                tell(study, number, None, notes={FAILURE: str(error), SECONDS: 0.0, PROVENANCE: provenance()})
            else:
                buildable.append(number)
        return buildable


@final
class _Rungs:
    """The callbacks of a group's fit: those of `FitRun`, and at each rung scores are reported and trials pruned."""

    def __init__(self, run: FitRun, trials: Sequence[optuna.Trial], rungs: Mapping[float, int]) -> None:
        self._run = run
        self._trials = trials
        self._rungs = rungs
        self.on_begin = run.on_begin
        self.on_step = run.on_step
        self.on_log = run.on_log
        self.on_drop = run.on_drop

    def on_validate(self, fraction: float, step: int) -> None:
        """Score all heads, report their scores, and then prune: all trials of a group are compared with each other."""
        self._run.on_validate(fraction, step)
        lines: list[dict[str, Any]] = [
            line for line in self._run.folder.lines() if "validated" in line and line["step"] == step
        ]
        scores = {line["head"]: line["score"] for line in lines if line["score"] is not None}
        for number, score in scores.items():
            report(self._trials[number], self._rungs[fraction], score)
        if fraction == max(self._rungs):
            return
        for number in scores:
            if self._trials[number].should_prune():
                self._run.trainees[number].drop(PRUNED)
                self._run.on_drop(self._run.trained.index(number), step)


def _encoded(frozen: FrozenTask) -> FrozenTask:
    """The same with the pooled states of all texts in memory, if heads read one row per text and no store is used."""
    if not frozen.in_memory or frozen.request.store is not None:
        return frozen
    return replace(frozen, shared=SharedRows(frozen.encoder, frozen.texts, frozen.passes, frozen.pool))
