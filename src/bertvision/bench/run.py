"""run_suite: measures the cells of a suite within a time limit, the most important first; run again, it resumes."""

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertvision.bench.cells import KINDS
from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.results import SuiteResults, open_results
from bertvision.bench.suite import Cell, Suite
from bertvision.bench.tune_cell import TUNE
from bertvision.errors import DivergedError, MissingExtraError
from bertvision.lock import lock_folder
from bertvision.runs.watch import telling


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A cell with a seed, and whether it is measured.

    Attributes:
        cell: the cell.
        seed: the seed.
        done: whether the record has its result.
        estimate: seconds that it took, or probably will take; None if unknown.
    """

    cell: Cell
    seed: int
    done: bool
    estimate: float | None

    def as_json(self) -> dict[str, Any]:
        """As a dictionary for JSON."""
        return {
            "name": self.cell.name,
            "kind": self.cell.kind,
            "seed": self.seed,
            "done": self.done,
            "seconds": self.estimate,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """The outcome of a call of `run_suite`.

    Attributes:
        record: file of the results.
        jobs: every cell with every seed, in order.
        measured: number of jobs measured in this call.
        diverged: names of the jobs measured in this call whose loss was not finite.
        skipped: by name of a job that was skipped, which package it lacks.
    """

    record: Path
    jobs: tuple[Job, ...]
    measured: int
    diverged: tuple[str, ...]
    skipped: Mapping[str, str]

    @property
    def left(self) -> list[Job]:
        """The jobs that are not measured yet."""
        return [job for job in self.jobs if not job.done]


def list_jobs(results: SuiteResults, cells: Sequence[Cell], seeds: Sequence[int]) -> tuple[Job, ...]:
    """All cells with the first seed, then with the next; cells that do not depend on the seed with seed 0 only."""
    jobs = []
    for seed in seeds:
        for cell in (one for one in cells if seed == 0 or one.by_chance):
            entry = results.find(cell, seed)
            estimate = results.estimate(cell, seed) if entry is None else entry["seconds"]
            jobs.append(Job(cell=cell, seed=seed, done=entry is not None, estimate=estimate))
    return tuple(jobs)


def run_suite(  # noqa: PLR0913 - what it depends on, by keyword
    suite: Suite,
    environment: BenchEnvironment,
    record: Path,
    *,
    seeds: Sequence[int] = range(3),
    only: Sequence[str] = (),
    max_seconds: float | None = None,
    keep: bool = False,
    timed: bool = True,
    join: Sequence[Path] = (),
) -> SuiteRun:
    """Measure the cells that the record lacks, one after the other; the record is saved after each.

    A cell that needs a package which is not installed is skipped, and stays to be measured.

    Args:
        suite: the suite.
        environment: paths and device.
        record: file of the results.
        seeds: seeds; all cells are measured with one before the next.
        only: names of cells; empty measures all.
        max_seconds: stop before a cell whose estimate exceeds the remaining time; cells without estimate are measured.
        keep: keep the runs in the work folder after no later cell reads them.
        timed: whether to record seconds; False if other programs share the machine.
        join: other records whose entries are added.

    Raises:
        BertVisionError: the record cannot be written, a cell cannot be measured, or another process uses the same work
            folder; what was measured before is kept.
    """
    cells = suite.only(only)
    stop = None if max_seconds is None else time.monotonic() + max_seconds
    with lock_folder(record.parent, wait=True):
        pass  # it can be written, which would otherwise be found out after the first cell
    with lock_folder(environment.work):
        results = open_results(record, suite)
        results.join(join)
        pending = [job for job in list_jobs(results, cells, seeds) if not job.done]
        measured, diverged, skipped = 0, [], {}
        for number, job in enumerate(pending):
            estimate = results.estimate(job.cell, job.seed) or 0.0
            if stop is not None and time.monotonic() + estimate >= stop:
                break
            name = f"{job.cell.name}, seed {job.seed}"
            named = replace(environment, show=telling(environment.show, f"{number + 1}/{len(pending)} {name}:"))
            try:
                if not _measure(results, job, named, timed=timed):
                    diverged.append(name)
                measured += 1
            except MissingExtraError as error:
                skipped[name] = str(error)
            if not keep:
                _clear(environment, job, pending[number + 1 :])
        if join or not pending:
            results.save()  # names, order and comparisons may have changed
    jobs = list_jobs(results, cells, seeds)
    return SuiteRun(record=record, jobs=jobs, measured=measured, diverged=tuple(diverged), skipped=skipped)


def _measure(results: SuiteResults, job: Job, environment: BenchEnvironment, *, timed: bool) -> bool:
    """Measure a cell, and save its result; returns False if it diverged, which is saved as a result, too."""
    begin = time.monotonic()
    finite = True
    try:
        result = KINDS[job.cell.kind].measure(job.cell.settings, job.seed, environment)
    except DivergedError as error:
        result, finite = {"models": {}, "diverged": str(error)}, False
    results.add(job.cell, job.seed, result, time.monotonic() - begin if timed else None)
    return finite


def _clear(environment: BenchEnvironment, job: Job, later: Sequence[Job]) -> None:
    """Remove the runs and vectors of a job that no later job reads."""
    needed = {run for other in later for run in _runs(environment, other)}
    for run in _runs(environment, job):
        if run not in needed:
            shutil.rmtree(run, ignore_errors=True)


def _runs(environment: BenchEnvironment, job: Job) -> list[Path]:
    """The folders in the work folder that a job reads or writes."""
    settings = job.cell.settings
    vectors = getattr(settings, "vectors", None)
    own = environment.run(job.cell.kind, settings, job.seed) if vectors is None else environment.work / vectors
    return [own, *(environment.run(TUNE, tuned, job.seed) for tuned in getattr(settings, "reads", ()))]
