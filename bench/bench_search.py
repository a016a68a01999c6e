"""A search with twenty heads against a fit of one head, both with the encoding of their texts.

python bench/bench_search.py
"""

import argparse
import tempfile
from pathlib import Path

from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.searching.search import SearchPlace, search
from bertvision.runs.searching.search_file import parse_space
from bertvision.runs.searching.search_request import SearchRequest
from bertvision.tasks.load import load_task
from bertvision.training.trainee import HeadSpec
from data import data_folder, save

TRIALS = 20
SPACE = {
    "lr": {"low": 3e-4, "high": 1e-2, "log": True},
    "head": {
        "layer_mix": {"dropout": {"low": 0.0, "high": 0.3}},
        "adapter_pool": {"size": [32, 64, 128], "skip": [True, False]},
        "layer_weights": {},
        "dot_attention": {},
    },
}
ONE = "one fit of one head"


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fraction", type=float, default=0.3)
    options = parser.parse_args()
    folder = data_folder("glue")
    task, data = ("cola", str(folder)) if folder.is_dir() else ("sst2", "builtin")
    request = SearchRequest(
        task=task, data=data, space=parse_space(SPACE), fraction=options.fraction, epochs=3.0, device="cpu"
    )

    def one() -> None:
        with tempfile.TemporaryDirectory() as place:
            fit_heads(request.fit((HeadSpec(head="layer_mix", fraction=options.fraction),)), Path(place) / "run")

    def many() -> None:
        with tempfile.TemporaryDirectory() as place:
            search(request, SearchPlace(out=Path(place) / "run", trials=TRIALS))

    timings = side_by_side({"ours": many, ONE: one}, rounds=options.rounds)
    splits = load_task(task, data=data).splits
    size = f"{task}, {round(options.fraction * len(splits['train'])):,} training and {len(splits['dev']):,} dev texts"
    claim = Claim(
        name="speed-search",
        what=f"a search of {TRIALS} heads (at most 3 times one fit is wanted)",
        command="python bench/bench_search.py",
        size=f"{size}, MiniLM, 2 cores",
        targets={ONE: 0.33},
    )
    save(claim, timings)


if __name__ == "__main__":
    main()
