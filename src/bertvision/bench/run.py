"""run_suite: measures the cells of a suite, the most important first, as far as time allows; goes on if run again."""

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
    """A cell with a seed, and how it stands.

    Attributes:
        cell: what is measured.
        seed: with which seed.
        done: whether the record has it.
        estimate: seconds that it took, or is likely to take; None where nobody knows.
    """

    cell: Cell
    seed: int
    done: bool
    estimate: float | None

    def as_json(self) -> dict[str, Any]:
        """In words."""
        return {
            "name": self.cell.name,
            "kind": self.cell.kind,
            "seed": self.seed,
            "done": self.done,
            "seconds": self.estimate,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """What came of a suite.

    Attributes:
        record: file of the results.
        jobs: every cell with every seed, in order.
        measured: how many were measured now.
        diverged: names of those whose loss was not finite, measured now.
        skipped: what those that were passed over lack, by name.
    """

    record: Path
    jobs: tuple[Job, ...]
    measured: int
    diverged: tuple[str, ...]
    skipped: Mapping[str, str]

    @property
    def left(self) -> list[Job]:
        """What is not measured yet."""
        return [job for job in self.jobs if not job.done]


def list_jobs(results: SuiteResults, cells: Sequence[Cell], seeds: Sequence[int]) -> tuple[Job, ...]:
    """Every cell with every seed, all cells with one before the next; what chance does not rule has seed 0 alone."""
    jobs = []
    for seed in seeds:
        for cell in (one for one in cells if seed == 0 or one.by_chance):
            found = results.find(cell, seed)
            estimate = results.estimate(cell, seed) if found is None else found["seconds"]
            jobs.append(Job(cell=cell, seed=seed, done=found is not None, estimate=estimate))
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
    """Measure what the record lacks, cell by cell; each is on disk before the next begins.

    A cell that needs a package which is not installed is passed over, and stays to be measured.

    Args:
        suite: what is measured.
        environment: where things are.
        record: file of the results.
        seeds: with which; all cells with one before the next.
        only: names of cells; empty measures all.
        max_seconds: stop before a cell that would not fit; one of which nothing is known is tried.
        keep: leave the runs in the work folder, also when no later cell reads them.
        timed: whether the machine is left alone, so that seconds mean something.
        join: other records, whose cells are taken over.

    Raises:
        BertVisionError: a cell cannot be measured, or another process works in the same folder; what was measured
            before is kept.
    """
    cells = suite.only(only)
    stop = None if max_seconds is None else time.monotonic() + max_seconds
    with lock_folder(environment.work):
        results = open_results(record, suite)
        results.join(join)
        todo = [job for job in list_jobs(results, cells, seeds) if not job.done]
        measured, diverged, skipped = 0, [], {}
        for number, job in enumerate(todo):
            needed = results.estimate(job.cell, job.seed) or 0.0
            if stop is not None and time.monotonic() + needed >= stop:
                break
            name = f"{job.cell.name}, seed {job.seed}"
            told = replace(environment, show=telling(environment.show, f"{number + 1}/{len(todo)} {name}:"))
            try:
                if not _measure(results, job, told, timed=timed):
                    diverged.append(name)
                measured += 1
            except MissingExtraError as error:
                skipped[name] = str(error)
            if not keep:
                _clear(environment, job, todo[number + 1 :])
        if join or not todo:
            results.save()  # names, order and comparisons may have changed
    jobs = list_jobs(results, cells, seeds)
    return SuiteRun(record=record, jobs=jobs, measured=measured, diverged=tuple(diverged), skipped=skipped)


def _measure(results: SuiteResults, job: Job, environment: BenchEnvironment, *, timed: bool) -> bool:
    """Measure a cell, and keep what came out; False if it diverged, which is a result, too."""
    begin = time.monotonic()
    finite = True
    try:
        result = KINDS[job.cell.kind].measure(job.cell.settings, job.seed, environment)
    except DivergedError as error:
        result, finite = {"models": {}, "diverged": str(error)}, False
    results.add(job.cell, job.seed, result, time.monotonic() - begin if timed else None)
    return finite


def _clear(environment: BenchEnvironment, job: Job, later: Sequence[Job]) -> None:
    """Remove the runs and vectors of a cell that no later one reads."""
    needed = {run for other in later for run in _runs(environment, other)}
    for run in _runs(environment, job):
        if run not in needed:
            shutil.rmtree(run, ignore_errors=True)


def _runs(environment: BenchEnvironment, job: Job) -> list[Path]:
    """The folders that a cell reads or makes."""
    settings = job.cell.settings
    vectors = getattr(settings, "vectors", None)
    own = environment.run(job.cell.kind, settings, job.seed) if vectors is None else environment.work / vectors
    return [own, *(environment.run(TUNE, tuned, job.seed) for tuned in getattr(settings, "reads", ()))]
