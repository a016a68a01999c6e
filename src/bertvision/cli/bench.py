"""`bertvision bench`: a suite of experiments in, a record out; goes on where it was when it is run again."""

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
    """A file of experiments such as experiments/rival.toml, or its name in the folder experiments."""

    data: Path | None = None
    """The folder that holds the folders of data that the suite names."""

    encoder: tuple[str, ...] = ()
    """Where an encoder of the suite is, such as all-mpnet-base-v2=models/mpnet; repeat it for more (default: it is
    looked for under its name)."""

    results: Path = Path("results")
    """Folder of the records; the suite's is SUITE.json there."""

    work: Path = Path("runs/bench")
    """Folder of the runs that are made on the way."""

    max_minutes: float | None = None
    """Stop before a cell that would not fit into so many minutes, as far as earlier ones tell (default: never)."""

    seeds: int = 3
    """Measure every cell with so many seeds: all cells with the first, then all with the next."""

    first_seed: int = 0
    """The first of them: others may be measured elsewhere at the same time, and joined."""

    only: str = ""
    """Measure these cells alone; names between commas."""

    keep: bool = False
    """Leave the runs in the work folder; else those that no later cell reads are removed."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    untimed: bool = False
    """Keep no seconds: for a machine that does other work meanwhile."""

    join: tuple[str, ...] = field(default=(), metadata={"metavar": "FILE"})
    """Take over the cells of another record, such as one of another machine; repeat it for more."""

    dry_run: bool = False
    """Tell what would be measured, and measure nothing."""

    json: bool = False
    """Print every cell and whether it is measured, as JSON."""


def run(options: Options) -> int:
    """Measure."""
    if options.seeds < 1:
        raise BertVisionError(f"--seeds is {options.seeds}, at least 1 is expected.")
    if options.first_seed < 0:
        raise BertVisionError(f"--first-seed is {options.first_seed}, at least 0 is expected.")
    from bertvision.bench.place import Place  # noqa: PLC0415 - imports torch, and help should open at once
    from bertvision.bench.results import open_results  # noqa: PLC0415
    from bertvision.bench.run import list_jobs, run_suite  # noqa: PLC0415
    from bertvision.bench.suite import find_suite, load_suite  # noqa: PLC0415

    suite = load_suite(find_suite(options.suite))
    only = [name.strip() for name in options.only.split(",") if name.strip()]
    record = options.results / f"{suite.name}.json"
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    if options.dry_run:
        _tell(options, record, list_jobs(open_results(record, suite), suite.only(only), seeds))
        return 0
    with ProgressBar(f"bench {suite.name}") as bar:
        done = run_suite(
            suite,
            Place(
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
            join=[Path(one) for one in options.join],
        )
    for name in done.diverged:
        print_note(f"{name}: its loss was not finite any more; the record says so.")
    for name, lacking in done.skipped.items():
        print_note(f"{name}: skipped. {lacking}")
    _tell(options, record, done.jobs)
    return 0


def _tell(options: Options, record: Path, jobs: "Sequence[Job]") -> None:
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
