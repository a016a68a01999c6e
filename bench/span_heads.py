"""Evaluations of span heads at several snapshots of one tuned encoder → one record: means and ranges over seeds.

python bench/span_heads.py EVALUATION.json … --encoder all-mpnet-base-v2 --name span-heads-mpnet
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertvision.atomic import write_json
from data import RESULTS

Record = dict[str, Any]


def snapshot_of(evaluation: Record) -> str:
    """The fraction of an epoch that an evaluation's encoder was tuned for."""
    return str(evaluation["encoder"]).rpartition("@")[2]


def by_head(evaluations: Iterable[Record]) -> list[Record]:
    """One row per head and snapshot, the best by held-out score first."""
    found: dict[tuple[str, str], dict[int, Record]] = defaultdict(dict)
    for evaluation in evaluations:
        for row in evaluation["rows"]:
            name = evaluation["own"] if row["own"] else row["head"]
            found[snapshot_of(evaluation), name][row["seed"]] = row  # the own output stands in several evaluations
    rows = [_joined(snapshot, head, list(seeds.values())) for (snapshot, head), seeds in found.items()]
    return sorted(rows, key=lambda row: (float(row["snapshot"]), -row["held_out"]))


def _joined(snapshot: str, head: str, rows: list[Record]) -> Record:
    scores = {}
    for at in rows[0]["scores"]:
        values = [row["scores"][at]["values"]["f1"]["value"] for row in rows]
        scores[at] = {"mean": sum(values) / len(values), "least": min(values), "most": max(values)}
    better = [row["scores"]["zero"]["against"].get("f1") for row in rows]
    return {
        "snapshot": snapshot,
        "head": head,
        "parameters": rows[0]["parameters"],
        "seeds": len(rows),
        "held_out": sum(row["held_out"] for row in rows) / len(rows),
        "f1": scores,
        "surely_better": sum(1 for test in better if test and test["claimed"] and test["value"] > 0),
        "surely_worse": sum(1 for test in better if test and test["claimed"] and test["value"] < 0),
    }


def main() -> None:
    """Read the evaluations, write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("evaluations", nargs="+", type=Path)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    evaluations = [json.loads(path.read_text(encoding="utf-8")) for path in options.evaluations]
    first = evaluations[0]
    record = {
        "format": 1,
        "kind": "span-heads",
        "name": options.name,
        "what": f"span heads on {options.encoder}, fully tuned for some of an epoch, {first['task']}",
        "note": options.note,
        "commands": [
            f"bertvision tune squad2 --data DIR --encoder {options.encoder} --learn full --snapshots 0.3,1 --out RUN",
            "bertvision fit squad2 --data DIR --encoder RUN@0.3 --heads … --seeds 3 --held-out 0.05 --out HEADS",
            "bertvision evaluate HEADS",
        ],
        "examples": first["examples"],
        "held_out_examples": first["held_out_examples"],
        "rows": by_head(evaluations),
        "provenance": first["provenance"],
    }
    write_json(RESULTS / f"{options.name}.json", record)
    for row in record["rows"]:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
