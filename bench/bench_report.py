"""Wall-clock time of the command `bertvision report` for 50 runs, which are copies of one run."""

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.judging.ensemble import ensemble
from bertvision.runs.judging.evaluate import evaluate
from bertvision.training.trainee import HeadSpec
from data import save_times

HEADS = ("last_layer", "layer_mix", "layer_mean", "layer_concat", "layer_weights", "dot_attention")
MOST_SECONDS = 20.0


def make_run(folder: Path) -> Path:
    """Fit twelve heads on the built-in set, evaluate them, and join them into an ensemble."""
    heads = tuple(HeadSpec(head=name, seed=seed) for name in HEADS for seed in (0, 1))
    fit_heads(FitRequest(task="sst5", heads=heads, epochs=4.0, validate=(1.0, 2.0, 3.0)), folder)
    evaluate(folder)
    ensemble([folder])
    return folder


def copy_run(run: Path, folder: Path) -> Path:
    """Copy a run, and replace its path in the records of the copy."""
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("outputs.safetensors"))
    for path in [*folder.rglob("evaluation.json"), *folder.rglob("ensemble.json")]:
        path.write_text(path.read_text(encoding="utf-8").replace(str(run), str(folder)), encoding="utf-8")
    return folder


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run = make_run(Path(place) / "run")
        runs = [str(copy_run(run, Path(place) / f"copy-{number:02}")) for number in range(options.runs)]
        out = Path(place) / "report"
        command = [sys.executable, "-m", "bertvision", "report", *runs, "--out", str(out)]
        seconds, busy = [], []
        for _ in range(options.rounds):
            begin = time.perf_counter()
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own command
            seconds.append(round(time.perf_counter() - begin, 2))
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            busy.append(round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2))
        size = (out / "index.html").stat().st_size
    what = f"the report of {options.runs} runs with {2 * len(HEADS)} heads each, the whole command"
    save_times("time-report", what, seconds, limit=MOST_SECONDS, processor_seconds=busy, page_bytes=size)


if __name__ == "__main__":
    main()
