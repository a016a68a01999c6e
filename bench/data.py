"""Shared by the benchmarks: questions and texts, a watcher of fits, and writing of records."""

import dataclasses
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bertvision.atomic import write_json
from bertvision.bench.measure import Timing, compare
from bertvision.bench.record import Claim, write_size_record, write_speed_record
from bertvision.provenance import provenance
from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.load import load_task

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def questions(count: int) -> Questions:
    """That many questions: SQuAD 2.0 from the folder BERTVISION_DATA, or the built-in ones, repeated as needed."""
    folder = data_folder("squad2")
    if not folder.is_dir():
        print("note: no SQuAD data, the built-in questions are used and repeated", file=sys.stderr)
    loaded = load_task("squad2", data=folder if folder.is_dir() else "builtin").splits["train"]
    if not isinstance(loaded, Questions):
        raise TypeError("squad2 holds questions")
    chosen = loaded.select(np.arange(count) % len(loaded))
    return dataclasses.replace(chosen, ids=[f"{key}-{number}" for number, key in enumerate(chosen.ids)])


def data_folder(name: str) -> Path:
    """The folder of a public data set, which may not exist."""
    return Path(os.environ.get("BERTVISION_DATA", ROOT.parent / "shared" / "data")) / name


def texts(task: str, count: int) -> Texts:
    """The first `count` texts of a GLUE task from the folder BERTVISION_DATA, or built-in ones, repeated as needed."""
    folder = data_folder("glue")
    loaded = load_task(task, data=folder if folder.is_dir() else "builtin").splits["train"]
    if not isinstance(loaded, Texts):
        raise TypeError(f"{task} holds questions")
    return loaded.select(np.arange(count) % len(loaded))


def spread(count: int) -> Questions:
    """Questions at equal distances in the data, so that their lengths are distributed as in all of it."""
    everything = questions(17_630)
    return everything.select(np.linspace(0, len(everything) - 1, count).astype(np.int64))


class SilentWatcher:
    """A watcher of a fit that does nothing, and fails if a head is dropped."""

    def on_begin(self, step: int, total: int) -> None:
        """Nothing."""

    def on_step(self, step: int) -> None:
        """Nothing."""

    def on_log(self, step: int, losses: Mapping[int, float]) -> None:
        """Nothing."""

    def on_drop(self, number: int, step: int) -> None:
        """Fail: a dropped head takes no more time, so the timing would be wrong."""
        raise RuntimeError(f"head {number} was dropped at step {step}")

    def on_validate(self, fraction: float, step: int) -> None:
        """Nothing."""


def save(claim: Claim, timings: Mapping[str, Timing]) -> None:
    """Write the record of a speed benchmark with the speedup over each baseline, and print it."""
    comparisons = {name: compare(timings["ours"], timing) for name, timing in timings.items() if name != "ours"}
    _show(write_speed_record(RESULTS, claim, timings, comparisons))


def save_sizes(claim: Claim, sizes: Mapping[str, int]) -> None:
    """Write the record of a size benchmark, and print it."""
    _show(write_size_record(RESULTS, claim, sizes))


def save_times(name: str, what: str, seconds: Sequence[float], *, limit: float, **more: object) -> None:
    """Write the record of a timing with an upper limit in seconds, and print it."""
    record = {
        "format": 1,
        "kind": "time",
        "name": name,
        "what": what,
        "command": " ".join(["python", f"bench/{Path(sys.argv[0]).name}", *sys.argv[1:]]),
        "seconds": list(seconds),
        **more,
        "limit": limit,
        "provenance": provenance(),
    }
    write_json(RESULTS / f"{name}.json", record)
    _show(RESULTS / f"{name}.json")


def _show(path: Path) -> None:
    print(json.dumps(json.loads(path.read_text(encoding="utf-8")), ensure_ascii=False))
