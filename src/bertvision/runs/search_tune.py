"""TuneTrials: every trial tunes an encoder by itself; those that fall behind are pruned at their snapshots."""

import math
import shutil
import time
from pathlib import Path
from typing import Any, final

import numpy as np
import optuna
from optuna.trial import FrozenTrial

from bertvision.errors import BertVisionError, DivergedError
from bertvision.provenance import provenance
from bertvision.runs.evaluate import RESAMPLES, evaluate
from bertvision.runs.folder import CONFIG
from bertvision.runs.judge import FITTED
from bertvision.runs.parts import split_train
from bertvision.runs.search_groups import Group
from bertvision.runs.search_request import SearchRequest
from bertvision.runs.search_study import (
    FAILURE,
    FOLDER,
    PROVENANCE,
    SECONDS,
    SOLVED,
    last_score,
    notes_of,
    open_trial,
    report,
    tell,
)
from bertvision.runs.tune import tune
from bertvision.runs.watch import Show
from bertvision.tasks.load import load_task
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan

RUN = "run"


@final
class TuneTrials:
    """Runs trials that tune an encoder."""

    def __init__(self, request: SearchRequest, show: Show | None) -> None:
        """Look at the data.

        Raises:
            BertVisionError: something does not fit.
        """
        self._request = request
        self._show = show
        loaded = load_task(request.task, data=request.data, columns=request.columns, skip_bad=request.skip_bad)
        if "train" not in loaded.splits:
            raise BertVisionError(f"{loaded.task.name} has no train split here, so there is nothing to learn from.")
        learnt, _ = split_train(
            loaded.splits["train"], fraction=request.fraction, held_out=request.held_out, seed=request.seed
        )
        self._examples = len(learnt)
        self._has_dev = "dev" in loaded.splits

    def run(self, group: Group, study: optuna.Study) -> None:
        """Tune the encoder of each trial of a group, and tell what came out.

        Raises:
            BertVisionError: something cannot be written; the same command goes on.
        """
        for number in group.numbers:
            self._tune(study, group.path, number)

    def _tune(self, study: optuna.Study, path: Path, number: int) -> None:
        trial = open_trial(study, number)
        point = self._request.space.point(trial.params)
        options = TuneOptions(epochs=self._request.epochs, batch=int(point.learning.get("batch", self._request.batch)))
        # an example has one window at least: rungs that are apart by examples are apart by windows
        rungs = self._request.rung_epochs(Plan(np.ones(self._examples, dtype=np.int64), options))

        def judge(fraction: float, score: float | None) -> None:
            if score is None or not math.isfinite(score):
                raise DivergedError("its score is not defined.")
            report(trial, rungs[fraction], score)
            if fraction != max(rungs) and trial.should_prune():
                raise optuna.TrialPruned

        run = path / RUN
        request = self._request.tuning(point, tuple(rungs)[:-1])
        notes: dict[str, object] = {FOLDER: f"{path.parent.name}/{path.name}/{RUN}", SOLVED: False}
        value, begin = None, time.perf_counter()
        try:
            tune(request, run, resume=(run / CONFIG).is_file(), show=self._show, judge=judge)
            value = last_score(study, number)
        except optuna.TrialPruned:
            shutil.rmtree(run, ignore_errors=True)
        except DivergedError as error:
            notes[FAILURE] = str(error)
            shutil.rmtree(run, ignore_errors=True)
        except BertVisionError as error:
            raise BertVisionError(f"trial {number} with {trial.params}: {error}") from None
        notes |= {SECONDS: round(time.perf_counter() - begin, 3), PROVENANCE: provenance()}
        tell(study, number, value, notes=notes)

    def keep(self, trial: FrozenTrial, folder: Path, best: Path) -> None:
        """Copy a trial's run.

        Args:
            trial: which.
            folder: of the search.
            best: where the run goes.

        Raises:
            BertVisionError: it cannot be written, or another machine has it.
        """
        place = notes_of(trial)[FOLDER]
        run = folder / str(place)
        if not run.is_dir():
            raise BertVisionError(
                f"trial {trial.number}, the best, was tuned on another machine, in {place} of its --out. "
                "Give this command there once more: it ends the search."
            )
        shutil.copytree(run, best)

    def score(self, best: Path) -> dict[str, Any]:
        """The scores of a run on dev, questions at the fitted threshold; none without a dev split.

        Raises:
            BertVisionError: they cannot be written.
        """
        if not self._has_dev:
            return {}
        row = evaluate(best, device=self._request.device, resamples=RESAMPLES, show=self._show).record.rows[0]
        at = FITTED if FITTED in row.scores else next(iter(row.scores))
        return {name: estimate.value for name, estimate in row.scores[at].values.items()}
