"""What the benchmarks share: questions to work on, and how a record is kept."""

import dataclasses
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bertvision.bench.measure import Timing, compare
from bertvision.bench.record import SpeedClaim, write_speed_record
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import load_task

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def questions(count: int) -> Questions:
    """That many questions: SQuAD 2.0 from the folder BERTVISION_DATA, or the built-in ones, repeated as needed."""
    folder = Path(os.environ.get("BERTVISION_DATA", ROOT.parent / "shared" / "data")) / "squad2"
    if not folder.is_dir():
        print("note: no SQuAD data, the built-in questions are used and repeated", file=sys.stderr)
    loaded = load_task("squad2", data=folder if folder.is_dir() else "builtin").splits["train"]
    if not isinstance(loaded, Questions):
        raise TypeError("squad2 holds questions")
    chosen = loaded.select(np.arange(count) % len(loaded))
    return dataclasses.replace(chosen, ids=[f"{key}-{number}" for number, key in enumerate(chosen.ids)])


def save(claim: SpeedClaim, timings: Mapping[str, Timing]) -> None:
    """Compare every baseline with ours, write the record and print it."""
    comparisons = {name: compare(timings["ours"], timing) for name, timing in timings.items() if name != "ours"}
    path = write_speed_record(RESULTS, claim, timings, comparisons)
    print(json.dumps(json.loads(path.read_text(encoding="utf-8")), ensure_ascii=False))
