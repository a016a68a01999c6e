"""TuneTrials: trials that each tune an encoder; bad ones are pruned at their snapshots."""

import math
import shutil
import time
from pathlib import Path
from typing import Any, Protocol, final

import optuna
from optuna.trial import FrozenTrial

from bertvision.atomic import write_json
from bertvision.encoder.snapshot import CARD, list_snapshots
from bertvision.errors import BertVisionError, DivergedError, MisfitError
from bertvision.places import moved
from bertvision.provenance import provenance
from bertvision.runs.folder import CONFIG
from bertvision.runs.judging.evaluate import RESAMPLES, evaluate
from bertvision.runs.judging.judge import FITTED
from bertvision.runs.parts import load_tasks, split_train, training_split
from bertvision.runs.searching.search_groups import Group
from bertvision.runs.searching.search_request import SearchRequest
from bertvision.runs.searching.search_space import Point
from bertvision.runs.searching.search_study import (
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
from bertvision.runs.tuning.multitask import multitask, score_dev
from bertvision.runs.tuning.tune import tune
from bertvision.runs.watch import JudgeSnapshot, Show
from bertvision.tasks.files import read_json
from bertvision.tasks.load import TaskData
from bertvision.training.mix import epoch_steps

RUN = "run"


class TunedTrial(Protocol):
    """Tunes an encoder for a trial: for one task, or for several."""

    def per_epoch(self, point: Point) -> int:
        """A lower bound of the steps of an epoch."""

    def tune(self, point: Point, out: Path, snapshots: tuple[float, ...], judge: JudgeSnapshot) -> None:
        """Tune, or resume an interrupted run; dev splits are not scored."""

    def score(self, run: Path) -> dict[str, Any]:
        """The scores of a run on dev."""


@final
class OneTask:
    """Tunes for one task."""

    def __init__(self, request: SearchRequest, show: Show | None) -> None:
        """Load the data, to count the training examples.

        Raises:
            BertVisionError: they cannot be loaded, or are too few.
        """
        self._request = request
        self._show = show
        loaded = request.load()
        self._examples = count_training_examples(request, loaded)
        self._has_dev = "dev" in loaded.splits

    def per_epoch(self, point: Point) -> int:
        """The steps of an epoch if every example had one window, which is the least."""
        return -(-self._examples // self._request.tuning(point).options.batch)

    def tune(self, point: Point, out: Path, snapshots: tuple[float, ...], judge: JudgeSnapshot) -> None:
        """Tune, or resume an interrupted run; dev splits are not scored.

        Raises:
            BertVisionError: as `tune`.
        """
        request = self._request.tuning(point, snapshots)
        tune(request, out, resume=(out / CONFIG).is_file(), show=self._show, judge=judge)

    def score(self, run: Path) -> dict[str, Any]:
        """The scores of a run on dev by name, for questions at the fitted threshold; empty without a dev split.

        Raises:
            BertVisionError: the evaluation cannot be written.
        """
        if not self._has_dev:
            return {}
        row = evaluate(run, device=self._request.device, resamples=RESAMPLES, show=self._show).record.rows[0]
        at = FITTED if FITTED in row.scores else next(iter(row.scores))
        return {name: estimate.value for name, estimate in row.scores[at].values.items()}


@final
class SeveralTasks:
    """Tunes for several tasks at once."""

    def __init__(self, request: SearchRequest, show: Show | None) -> None:
        """Load the data, to count the training examples.

        Raises:
            BertVisionError: they cannot be loaded, or are too few.
        """
        self._request = request
        self._show = show
        loaded = load_tasks(request.tasks, request)
        self._examples = {name: count_training_examples(request, data) for name, data in loaded.items()}

    def per_epoch(self, point: Point) -> int:
        """The steps of an epoch if every example had one window, which is the least."""
        request = self._request.multitask(point)
        return sum(epoch_steps(self._examples, request.turns, request.options.batch))

    def tune(self, point: Point, out: Path, snapshots: tuple[float, ...], judge: JudgeSnapshot) -> None:
        """Tune, or resume an interrupted run; dev splits are not scored.

        Raises:
            BertVisionError: as `multitask`.
        """
        request = self._request.multitask(point, snapshots)
        multitask(request, out, resume=(out / CONFIG).is_file(), show=self._show, judge=judge)

    def score(self, run: Path) -> dict[str, Any]:
        """The scores of a run on dev, called `TASK.METRIC`, if defined; empty without a dev split.

        Raises:
            BertVisionError: the run's files cannot be written.
        """
        return {name: value for name, value in score_dev(run, show=self._show).items() if math.isfinite(value)}


def count_training_examples(request: SearchRequest, loaded: TaskData) -> int:
    """The number of training examples of a task in a trial, without those held out.

    Raises:
        BertVisionError: there is no training split, or training or held-out examples would be empty.
    """
    train, _ = split_train(
        training_split(loaded), fraction=request.fraction, held_out=request.held_out, seed=request.seed
    )
    return len(train)


@final
class TuneTrials:
    """Runs trials that tune an encoder."""

    def __init__(self, request: SearchRequest, way: TunedTrial) -> None:
        self._request = request
        self._way = way

    def run(self, group: Group, study: optuna.Study) -> None:
        """Tune the encoder of each trial of a group, and store the results in the study.

        Raises:
            BertVisionError: a trial cannot run, or a file cannot be written; the same command continues.
        """
        for number in group.numbers:
            self._tune(study, group.path, number)

    def _tune(self, study: optuna.Study, path: Path, number: int) -> None:
        trial = open_trial(study, number)
        point = self._request.space.point(trial.params)
        # every example has at least one window: rungs on different steps for examples are so for windows, too
        rungs = self._request.rung_epochs(self._way.per_epoch(point))

        def judge(fraction: float, score: float | None) -> None:
            if score is None or not math.isfinite(score):
                raise DivergedError("its score is not defined.")
            report(trial, rungs[fraction], score)
            if fraction != max(rungs) and trial.should_prune():
                raise optuna.TrialPruned

        run = path / RUN
        notes: dict[str, object] = {FOLDER: f"{path.parent.name}/{path.name}/{RUN}", SOLVED: False}
        value, begin = None, time.perf_counter()
        try:
            self._way.tune(point, run, tuple(rungs)[:-1], judge)
            value = last_score(study, number)
        except optuna.TrialPruned:
            shutil.rmtree(run, ignore_errors=True)
        except (DivergedError, MisfitError) as error:
            notes[FAILURE] = str(error)
            shutil.rmtree(run, ignore_errors=True)
        except BertVisionError as error:
            raise BertVisionError(f"trial {number} with {trial.params}: {error}") from None
        notes |= {SECONDS: round(time.perf_counter() - begin, 3), PROVENANCE: provenance()}
        tell(study, number, value, notes=notes)

    def keep(self, trial: FrozenTrial, folder: Path, best: Path) -> None:
        """Copy the run of a trial.

        Args:
            trial: the trial.
            folder: folder of the search.
            best: folder of the copy.

        Raises:
            BertVisionError: the run is on another machine.
        """
        place = notes_of(trial)[FOLDER]
        run = folder / str(place)
        if not run.is_dir():
            raise BertVisionError(
                f"trial {trial.number}, the best, was tuned on another machine, in {place} of its --out. "
                "Give this command there once more: it ends the search."
            )
        _copy_run(run, best)

    def score(self, best: Path) -> dict[str, Any]:
        """The scores of a run on dev; empty without a dev split.

        Raises:
            BertVisionError: a file cannot be written.
        """
        return self._way.score(best)


def _copy_run(run: Path, copy: Path) -> None:
    """Copy a finished run to another folder; relative paths in its files lead to the same places as before."""
    shutil.copytree(run, copy, dirs_exist_ok=True)
    for file in (run / CONFIG, *(snapshot.folder / CARD for snapshot in list_snapshots(run))):
        content, place = read_json(file), copy / file.relative_to(run)
        if "made_in" in content:
            write_json(place, content | {"made_in": moved(content["made_in"], file.parent, place.parent)})
