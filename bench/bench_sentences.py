"""Solved heads beside embeddings + scikit-learn and SetFit on sentence and pair tasks → one record, cell by cell.

python bench/bench_sentences.py --cache DIR --out results/trial/sentences-minilm.json

What the record has already is not measured again; the most important cells come first.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bertvision.atomic import write_json
from bertvision.bench.sentence_table import add_tests
from bertvision.bench.sentences import SentenceSettings, measure_sentences, pack_predictions
from bertvision.provenance import provenance
from bertvision.tasks.examples import gold_targets
from bertvision.tasks.load import load_task
from data import data_folder

GLUE = ("cola", "rte", "mrpc", "stsb", "sst2", "wnli")
COURSE = ("sst5", "sts", "quora")
TUNED = ("sst2", "cola", "sst5")
"""Single texts with labels, which SetFit is for."""

SHOTS = (None, 8, 32, 128)
SEEDS = (0, 1, 2)
MOST = {"sst2": 12_000}
"""Training examples of tasks that have more than a trial needs."""


def plan() -> Iterator[tuple[SentenceSettings, int]]:
    """Every cell and seed, the most important first."""
    for shots in SHOTS:
        for task in (*GLUE, *COURSE):
            folder = "glue" if task in GLUE else "cs224n"
            base = SentenceSettings(task=task, data=str(data_folder(folder)), shots=shots, most=MOST.get(task))
            for method in ("last_layer", "layer_concat", "embeddings"):
                for seed in SEEDS if shots is not None else SEEDS[:1]:
                    yield replace(base, method=method), seed
            for seed in SEEDS if shots in (8, 32) and task in TUNED else ():
                yield replace(base, method="setfit"), seed


def main() -> None:
    """Measure what is missing, until the time is over."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", default=",".join((*GLUE, *COURSE)))
    parser.add_argument("--methods", default="last_layer,layer_concat,embeddings,setfit")
    parser.add_argument("--max-minutes", type=float, default=60.0)
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.max_minutes
    record = _begun(options.out)
    done = {json.dumps([cell["settings"], cell["seed"]]) for cell in record["cells"]}
    for settings, seed in plan():
        told = {key: value for key, value in asdict(settings).items() if key != "data"}
        wanted = settings.task in options.tasks.split(",") and settings.method in options.methods.split(",")
        if not wanted or json.dumps([told, seed]) in done or time.monotonic() > end:
            continue
        cell = {"settings": told, "seed": seed, **measure_sentences(settings, seed, options.cache)}
        print(settings.task, settings.method, settings.shots, seed, cell["metrics"], cell["seconds"], flush=True)
        record["cells"].append(cell)
        golds = pack_predictions(gold_targets(load_task(settings.task, data=settings.data).splits["dev"]))
        record["golds"].setdefault(settings.task, golds)
        write_json(options.out, {**record, "provenance": provenance()})
    write_json(options.out, {**add_tests(record), "provenance": provenance()})


def _begun(out: Path) -> dict[str, Any]:
    """The record as far as it is."""
    if out.exists():
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found
    return {
        "format": 1,
        "kind": "sentences",
        "name": out.stem,
        "command": f"python bench/bench_sentences.py --cache DIR --out results/trial/{out.name}",
        "golds": {},
        "cells": [],
        "tests": [],
    }


if __name__ == "__main__":
    main()
