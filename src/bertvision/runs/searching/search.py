"""search: hyper-parameters of heads or of tuned encoders → the best trial by held-out score, and a list of all."""

import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, assert_never

from bertvision.errors import BertVisionError, MissingExtraError, refuse

try:  # before the modules below, which import it, too
    import optuna
except ImportError:
    raise MissingExtraError("a search", "optuna", "search") from None
import torch
from optuna.trial import FrozenTrial

from bertvision.atomic import whole_folder, write_json
from bertvision.encoder.snapshot import find_snapshot
from bertvision.lock import lock_folder
from bertvision.runs.folder import CONFIG, RunFolder
from bertvision.runs.searching.search_groups import GROUPS, SearchGroups
from bertvision.runs.searching.search_heads import HeadTrials
from bertvision.runs.searching.search_record import search_record, write_record
from bertvision.runs.searching.search_request import BEST, SearchRequest
from bertvision.runs.searching.search_study import (
    FAILURE,
    FOLDER,
    all_trials,
    best_trial,
    database_errors,
    notes_of,
    open_study,
    running,
)
from bertvision.runs.searching.search_tune import OneTask, SeveralTasks, TuneTrials
from bertvision.runs.tuned_split import check_unseen, tuned_run
from bertvision.runs.tuning.multitask_request import task_names
from bertvision.runs.watch import Show
from bertvision.tasks.files import read_json
from bertvision.training.trainee import HeadSpec

STUDY, KEPT = "study.db", "trial.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of `search`.

    Attributes:
        out: folder of the search.
        record: the content of its `trials.json`.
        notices: messages for the user.
    """

    out: Path
    record: dict[str, Any]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlace:
    """Where a search stores its trials, and the number of trials and processes.

    Attributes:
        out: folder of the search.
        trials: total number of trials, of all processes and earlier calls together.
        storage: URL of a database that several machines may share; None takes an SQLite file in the folder.
        study: name of the study in the database; None takes the name of the task.
        jobs: number of processes on this machine.
    """

    out: Path
    trials: int
    storage: str | None = None
    study: str | None = None
    jobs: int = 1

    @property
    def url(self) -> str:
        """The URL of the database."""
        return self.storage or f"sqlite:///{(self.out / STUDY).absolute()}"

    def check(self) -> None:
        """Refuse numbers below 1.

        Raises:
            BertVisionError: naming every option with its value.
        """
        least = {"--trials": self.trials, "--jobs": self.jobs}
        refuse(f"{name} is {value}, at least 1 is expected" for name, value in least.items() if value < 1)


def search(request: SearchRequest, place: SearchPlace, *, show: Show | None = None) -> SearchResult:
    """Run trials up to a number, copy the run of the best one to the folder `best`, and score it on dev.

    Called again with the same request, it continues where it stopped; the number of trials may be larger. Several
    processes share the trials if they use the same folder, or, on several machines, the same database.

    Args:
        request: the settings of the trials.
        place: where trials are stored, and how many there are.
        show: shows the progress of each run.

    Raises:
        BertVisionError: the request, the folder or the database does not fit, or a file cannot be written; finished
            trials are kept.
    """
    request.check()
    place.check()
    folder = RunFolder(place.out)
    folder.check(asdict(request), resume=True)
    runner = cache(partial(_runner, request, show))  # loads data and encoder at the first call
    if not (place.out / CONFIG).is_file():
        runner()  # errors in the request come up before anything is written
    with lock_folder(place.out, wait=True):  # only one of several processes creates the database
        folder.begin(asdict(request), "")  # before the database: other processes refuse a folder of unknown files
        study = _open(request, place)
    with database_errors(place.url):
        with _other_jobs(request, place) as problems:
            _work(request, place, study, runner)
        if problems:
            raise BertVisionError(problems[0])
        return _finish(request, place, study, runner)


@contextmanager
def _other_jobs(request: SearchRequest, place: SearchPlace) -> Iterator[list[str]]:
    """Run the other processes of this machine meanwhile, with an equal share of its threads each.

    The list has their error messages once the context is left.
    """
    problems: list[str] = []
    if place.jobs == 1:
        yield problems
        return
    before = torch.get_num_threads()
    threads = max(1, before // place.jobs)
    torch.set_num_threads(threads)
    try:
        with ProcessPoolExecutor(place.jobs - 1, mp_context=multiprocessing.get_context("spawn")) as pool:
            futures = [pool.submit(_work_as_job, request, place, threads) for _ in range(place.jobs - 1)]
            yield problems
            try:
                problems += [problem for future in futures if (problem := future.result()) is not None]
            except BrokenProcessPool:
                problems.append(
                    f"a process of --jobs {place.jobs} was killed, perhaps because memory ran out. Finished trials are "
                    "kept: the same command goes on, and fewer --jobs need less memory."
                )
    finally:
        torch.set_num_threads(before)


def _work_as_job(request: SearchRequest, place: SearchPlace, threads: int) -> str | None:
    """The work of another process; returns its error message, or None."""
    torch.set_num_threads(threads)
    try:
        study = _open(request, place)
        with database_errors(place.url):
            _work(request, place, study, partial(_runner, request, None))
    except BertVisionError as error:
        return str(error)
    return None


Runner = HeadTrials | TuneTrials


def _runner(request: SearchRequest, show: Show | None) -> Runner:
    _check_encoder(request)
    match request.space.kind:
        case "heads":
            return HeadTrials(request, show)
        case "tune":
            return TuneTrials(request, OneTask(request, show))
        case "multitask":
            return TuneTrials(request, SeveralTasks(request, show))
        case _:
            assert_never(request.space.kind)


def _check_encoder(request: SearchRequest) -> None:
    """Refuse an encoder that was tuned on the held-out examples that trials are scored on."""
    snapshot = find_snapshot(request.encoder)
    run = tuned_run(request.encoder)
    if snapshot is None or not (run / CONFIG).is_file():
        return
    if set(task_names(snapshot.task)) & set(request.tasks):
        check_unseen(request.fit((HeadSpec(head="last_layer", fraction=request.fraction),)), run)


def _open(request: SearchRequest, place: SearchPlace) -> optuna.Study:
    return open_study(
        place.url,
        place.study or request.task,
        kind=request.space.kind,
        reduction=request.reduction,
        settings=request.settings(),
    )


def _work(request: SearchRequest, place: SearchPlace, study: optuna.Study, runner: Callable[[], Runner]) -> None:
    """Run one group of trials after another until there are enough trials."""
    begun = all_trials(study)
    if len(begun) >= place.trials and not running(begun):
        return
    runs = runner()  # before the first trial begins, so that an error leaves none unfinished
    size = 1 if request.space.kind != "heads" else min(request.together, -(-place.trials // place.jobs))
    groups = SearchGroups(
        folder=place.out,
        study=study,
        request=request,
        trials=place.trials,
        size=size,
        alone=place.storage is None,
    )
    more = True
    while more:
        with groups.next() as group:
            more = group is not None
            if group is not None:
                runs.run(group, study)
        if more:
            with lock_folder(place.out, wait=True):
                _tidy(place.out, study)
                write_record(place.out, search_record(request, all_trials(study), dev=None))


def _finish(
    request: SearchRequest, place: SearchPlace, study: optuna.Study, runner: Callable[[], Runner]
) -> SearchResult:
    """Write the record, and copy and score the best trial; the latter is left to the last process while others run."""
    with lock_folder(place.out, wait=True):
        trials = all_trials(study)
        unfinished, best, notices = running(trials), best_trial(trials), request.notices()
        dev = None
        if unfinished:
            notices.append(
                f"{len(unfinished)} trials still run in other processes; "
                "the last one to end keeps the best and scores it."
            )
        elif best is None:
            reasons = {str(notes_of(trial).get(FAILURE)) for trial in trials}
            notices.append(f"no trial was completed: {'; '.join(sorted(reasons))}.")
        else:
            dev = _keep(place.out, best, runner)
        _tidy(place.out, study)
        record = search_record(request, trials, dev=dev)
        write_record(place.out, record)
    return SearchResult(out=place.out, record=record, notices=tuple(notices))


def _keep(out: Path, trial: FrozenTrial, runner: Callable[[], Runner]) -> dict[str, Any]:
    """Copy the run of the best trial to `best` and score it on dev, unless that was done before; returns the scores."""
    best = out / BEST
    if (best / KEPT).is_file() and read_json(best / KEPT)["trial"] == trial.number:
        dev: dict[str, Any] = read_json(best / KEPT)["dev"]
        return dev
    runs = runner()
    with whole_folder(best, "the best trial's run", otherwise="Make room; the same command goes on.") as part:
        runs.keep(trial, out, part)
    dev = runs.score(best)
    write_json(best / KEPT, {"trial": trial.number, "dev": dev})
    return dev


def _tidy(out: Path, study: optuna.Study) -> None:
    """Remove the heads and encoders of finished trials except those of the best one."""
    trials = all_trials(study)
    best = best_trial(trials)
    kept = None if best is None else str(notes_of(best)[FOLDER])
    for trial in trials:
        place = str(notes_of(trial).get(FOLDER, ""))
        if place.startswith(f"{GROUPS}/") and place != kept and trial.state.is_finished():
            shutil.rmtree(out / place, ignore_errors=True)
