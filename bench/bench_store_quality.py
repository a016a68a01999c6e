"""Quality of heads trained from a store and from the stream: F1 on dev, three seeds, the shipped pack's MiniLM.

python bench/bench_store_quality.py
"""

import argparse
import gzip
import json
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from bertvision.atomic import write_json
from bertvision.provenance import provenance
from bertvision.runs.fitting.extract import ExtractRequest, extract_states
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.store.codec import Keep
from bertvision.training.trainee import HeadSpec
from data import RESULTS, data_folder

HEADS = ("layer_mix", "adapter_pool_64_skip", "dot_attention")
SEEDS = 3
METRICS = ("f1", "f1_fitted", "best_f1")
STREAM = "stream"
MOST_APART = 0.3
"""Target for the difference in F1 of heads from a store and from the stream, in points, in either direction."""


def main() -> None:
    """Fit the same heads from the stream and from stores, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encoder", default="qa-minilm")
    parser.add_argument("--every", type=int, default=4, help="take each so-manieth paragraph of the training set")
    parser.add_argument("--epochs", type=float, default=2.0)
    parser.add_argument("--keep", nargs="+", choices=get_args(Keep), default=["fp16", "int8"])
    options = parser.parse_args()
    specs = tuple(HeadSpec(head=name, lr=1e-3, seed=seed) for name in HEADS for seed in range(SEEDS))
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        data = write_part(data_folder("squad2"), place / "data", options.every)
        asked = {"task": "squad2", "data": str(data), "encoder": options.encoder}
        for source in (STREAM, *options.keep):
            if source != STREAM:
                extract_states(ExtractRequest(**asked, keep=source), place / source)
            states = source if source == STREAM else f"store:{place / source}"
            request = FitRequest(**asked, heads=specs, epochs=options.epochs, source=states)
            found[source] = scores(fit_heads(request, place / f"run-{source}").leaderboard)
            print(json.dumps({source: found[source]}), flush=True)
    apart = {
        keep: {
            head: {
                metric: round(mean(found[keep][head], metric) - mean(found[STREAM][head], metric), 3)
                for metric in METRICS
            }
            for head in HEADS
        }
        for keep in options.keep
    }
    record = {
        "format": 1,
        "kind": "quality",
        "name": "quality-store",
        "what": "heads from a store, less the same from the stream, points of F1 on dev, mean over seeds",
        "command": "python bench/bench_store_quality.py",
        "settings": vars(options) | {"heads": HEADS, "seeds": SEEDS},
        "target": MOST_APART,
        "apart": apart,
        "scores": found,
        "provenance": provenance(),
    }
    write_json(RESULTS / "quality-store.json", record)
    print(json.dumps(apart))


def write_part(source: Path, target: Path, every: int) -> Path:
    """Write SQuAD 2.0 with every n-th training paragraph, and all of dev."""
    target.mkdir()
    for split in ("train", "dev"):
        with gzip.open(source / f"{split}.json.gz", "rt", encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)
        if split == "train":
            for article in content["data"]:
                article["paragraphs"] = article["paragraphs"][::every]
        write_json(target / f"{split}.json", content)
    return target


def scores(leaderboard: list[dict[str, Any]]) -> dict[str, list[dict[str, float]]]:
    """F1 at the three thresholds for every seed, by head."""
    rows = sorted(leaderboard, key=lambda row: row["seed"])
    return {
        head: [{metric: round(row["metrics"][metric], 3) for metric in METRICS} for row in rows if row["head"] == head]
        for head in HEADS
    }


def mean(seeds: list[dict[str, float]], metric: str) -> float:
    """The mean of a metric over seeds."""
    return fmean(one[metric] for one in seeds)


if __name__ == "__main__":
    main()
