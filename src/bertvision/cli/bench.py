"""`bertvision bench`: run a suite of experiments into one record; resumes where it stopped when run again."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertvision.cli.output import ProgressBar, print_json, print_lines, print_note, print_table
from bertvision.cli.task_options import parse_settings
from bertvision.errors import BertVisionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bertvision.bench.run import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision bench`."""

    suite: str
    """File of experiments, such as experiments/rival.toml, or the name of one in the folder experiments."""

    data: Path | None = None
    """Folder that contains the data folders named in the suite."""

    encoder: tuple[str, ...] = ()
    """Path of an encoder of the suite, such as all-mpnet-base-v2=models/mpnet; repeat for more (default: encoders are
    looked up by name)."""

    results: Path = Path("results")
    """Folder for the records; the suite's record in it is SUITE.json."""

    work: Path = Path("runs/bench")
    """Folder for the runs that are made on the way."""

    max_minutes: float | None = None
    """Time limit: stop before a cell that would exceed this many minutes, estimated from earlier ones (default: no
    limit)."""

    seeds: int = 3
    """Number of seeds for every cell: all cells are run with the first seed, then all with the next."""

    first_seed: int = 0
    """First seed. Other seeds can run on another machine at the same time; --join merges the records."""

    only: str = ""
    """Run only these cells; names separated by commas."""

    keep: bool = False
    """Keep all runs in the work folder, instead of removing those that no later cell reads."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device; 'auto' uses a GPU if there is one."""

    untimed: bool = False
    """Do not record times; for a machine that does other work meanwhile."""

    join: tuple[str, ...] = field(default=(), metadata={"metavar": "FILE"})
    """Merge the cells of another record, such as one from another machine; repeat for more."""

    dry_run: bool = False
    """List what would be run, and run nothing."""

    json: bool = False
    """Print all cells, and whether each is measured, as JSON."""


def run(options: Options) -> int:
    """Measure."""
    if options.seeds < 1:
        raise BertVisionError(f"--seeds is {options.seeds}, at least 1 is expected.")
    if options.first_seed < 0:
        raise BertVisionError(f"--first-seed is {options.first_seed}, at least 0 is expected.")
    if options.max_minutes is not None and not options.max_minutes > 0.0:
        raise BertVisionError(f"--max-minutes is {options.max_minutes:g}, more than 0 is expected.")
    from bertvision.bench.environment import BenchEnvironment  # noqa: PLC0415 - imports torch, and help should open at once
    from bertvision.bench.results import open_results  # noqa: PLC0415
    from bertvision.bench.run import list_jobs, run_suite  # noqa: PLC0415
    from bertvision.bench.suite import find_suite, load_suite  # noqa: PLC0415

    suite = load_suite(find_suite(options.suite))
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    record = options.results / f"{suite.name}.json"
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    join = [Path(name) for name in options.join]
    if options.dry_run:
        results = open_results(record, suite)
        results.join(join)
        _print_jobs(options, record, list_jobs(results, suite.only(only), seeds))
        return 0
    with ProgressBar(f"bench {suite.name}") as bar:
        done = run_suite(
            suite,
            BenchEnvironment(
                data=options.data,
                encoders=parse_settings(options.encoder, option="--encoder", example="minilm=models/minilm"),
                work=options.work,
                device=options.device,
                show=bar.show,
            ),
            record,
            seeds=seeds,
            only=only,
            max_seconds=None if options.max_minutes is None else 60.0 * options.max_minutes,
            keep=options.keep,
            timed=not options.untimed,
            join=join,
        )
    for name in done.diverged:
        print_note(f"{name}: its loss was not finite any more; the record says so.")
    for name, lacking in done.skipped.items():
        print_note(f"{name}: skipped. {lacking}")
    _print_jobs(options, record, done.jobs)
    return 0


def _print_jobs(options: Options, record: Path, jobs: "Sequence[Job]") -> None:
    """Print all cells and whether each is measured, and how long the rest will take."""
    left = [job for job in jobs if not job.done]
    if options.json:
        print_json({"record": str(record), "left": len(left), "cells": [job.as_json() for job in jobs]})
        return
    rows: list[list[Any]] = [
        [job.cell.name, job.cell.kind, job.seed, "measured" if job.done else "left", job.estimate] for job in jobs
    ]
    print_table(f"{record}: {len(jobs) - len(left)} of {len(jobs)} measured", ["cell", "kind", "seed", "", "s"], rows)
    if left:
        known = [job.estimate for job in left if job.estimate is not None]
        about = f", about {sum(known) / 60:.0f} minutes" if len(known) == len(left) else ""
        print_lines(
            [f"Left: {len(left)}{about}. The same command goes on with {left[0].cell.name}, seed {left[0].seed}."]
        )
