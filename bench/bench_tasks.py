"""Predictions of eight tasks in one pass over an encoder, against one task, and against all one after the other.

python bench/bench_tasks.py                   # MiniLM on the CPU, one text after the other
"""

import argparse
import tempfile
from pathlib import Path

import torch

from bench_server import make_pack
from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.packs.multi_task import MultiTask
from data import save, spread

TASKS = ("sst2", "sst5", "cola") * 3
COUNT = 8
TEXTS = 8
ONE, APART = "one task", "eight tasks, one after the other"
MOST = 1.15
"""Target for the time of all tasks over that of one."""


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    texts = spread(TEXTS).contexts[:TEXTS]
    with tempfile.TemporaryDirectory() as place:
        packs = [
            make_pack(Path(place) / str(number), options.encoder, task) for number, task in enumerate(TASKS[:COUNT])
        ]
        single = [MultiTask.from_pretrained([pack], device="cpu") for pack in packs]
        every = MultiTask.from_pretrained(packs, device="cpu")
    runs = {
        "ours": lambda: [every(text) for text in texts],
        ONE: lambda: [single[0](text) for text in texts],
        APART: lambda: [one(text) for text in texts for one in single],
    }
    claim = Claim(
        name="speed-eight-tasks",
        what="eight tasks over one encoder, one pass",
        command="python bench/bench_tasks.py",
        size=f"{len(texts)} texts one by one, {options.encoder}, cpu, {torch.get_num_threads()} threads",
        targets={ONE: round(1 / MOST, 2)},
    )
    save(claim, side_by_side(runs, rounds=options.rounds))


if __name__ == "__main__":
    main()
