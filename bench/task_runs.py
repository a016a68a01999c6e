"""Write one record of several runs: means and ranges over seeds, and paired tests if predictions are kept.

python bench/task_runs.py multitask RUN … --called mpnet=all-mpnet-base-v2 --name multitask-cs224n
python bench/task_runs.py grid RUN … --name multitask-grid
python bench/task_runs.py distances RUN … --called mpnet=all-mpnet-base-v2 --name triplet-distances
python bench/task_runs.py glue RUN … --called mpnet=all-mpnet-base-v2 --name glue-mpnet
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from bertvision.atomic import write_json
from bertvision.errors import BertVisionError
from bertvision.provenance import portable
from data import RESULTS
from task_tests import label_gaps, paired_tests

Record = dict[str, Any]
K = TypeVar("K", bound=Hashable)

BASELINE = "baseline"
MISLEADING = "wnli"
"""Most first texts of its dev set are in its training set with the other label, so an average without it is added."""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run; `called` has the names of encoders by folder where these differ."""

    folder: Path
    called: Mapping[str, str] = field(default_factory=dict)

    def read(self, name: str) -> Record:
        """The content of one of its JSON files."""
        content: Record = json.loads((self.folder / name).read_text(encoding="utf-8"))
        return content

    @property
    def request(self) -> Record:
        """Its request, from config.json."""
        request: Record = self.read("config.json")["request"]
        return request

    @property
    def encoder(self) -> str:
        """The name of its encoder, or of the run that it continues."""
        return portable(self.request["encoder"], self.called)

    @property
    def learning(self) -> Record:
        """Its training options: learning rates, epochs, seed and others."""
        request = self.request
        options: Record = request["options"] if "options" in request else request["tuning"]
        return options

    @property
    def command(self) -> str:
        """The command that made it, without paths of this machine."""
        return portable(self.read("config.json")["provenance"]["command"], self.called)

    def logged(self) -> list[Record]:
        """The entries of its log."""
        lines = (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


def spread(values: Sequence[float]) -> Record:
    """Mean, minimum and maximum of the values of several seeds, and the values."""
    return {"mean": fmean(values), "least": min(values), "most": max(values), "values": list(values)}


def grouped(runs: Iterable[Run], key: Callable[[Run], K]) -> dict[K, list[Run]]:
    """Runs by a key, each group in the order of its seeds.

    Raises:
        BertVisionError: runs of a group have the same seed, or differ in other training options.
    """
    groups: dict[K, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: int(run.learning["seed"])):
        group, name = groups[key(run)], run.folder.name
        if group and run.learning["seed"] == group[-1].learning["seed"]:
            raise BertVisionError(f"{name} has the seed of {group[-1].folder.name}. Expected one run of each seed.")
        if group and run.learning | {"seed": None} != group[0].learning | {"seed": None}:
            raise BertVisionError(f"{name} did not learn as {group[0].folder.name} did. Expected another seed alone.")
        group.append(run)
    return groups


def multitask(runs: Sequence[Run]) -> Record:
    """Each way of multitask training, with paired tests against the baseline of the same encoder.

    Raises:
        BertVisionError: an encoder has no baseline with the same seeds.
    """
    stages = {run.folder.name: run for run in runs if "loss" in run.request}

    def way(run: Run) -> tuple[str, str]:
        stage, request = stages.get(run.encoder), run.request
        parts = {"triplets": stage is not None, "balanced": request["balance"], "questions": request["input"] == "qa"}
        name = " + ".join(part for part, there in parts.items() if there) or BASELINE
        return (run if stage is None else stage).encoder, name

    ways = grouped((run for run in runs if run.folder.name not in stages), way)
    rows, tests = [], []
    for (encoder, name), mine in ways.items():
        rows.append({"encoder": encoder, "way": name, **_made(mine), "metrics": _metrics(mine), "gaps": _gaps(mine)})
        if name == BASELINE:
            continue
        theirs = ways.get((encoder, BASELINE), [])
        if _seeds(theirs) != _seeds(mine):
            raise BertVisionError(
                f"{encoder} has seeds {_seeds(mine)} for {name}, {_seeds(theirs)} for the {BASELINE}."
            )
        folders = [run.folder for run in mine], [run.folder for run in theirs]
        tests.append({"encoder": encoder, "way": name, "metrics": paired_tests(*folders)})
    return {"rows": rows, "tests": tests}


def _seeds(runs: Sequence[Run]) -> list[int]:
    return [run.learning["seed"] for run in runs]


def _made(runs: Sequence[Run]) -> Record:
    return {"seeds": _seeds(runs), "command": runs[0].command}


def _metrics(runs: Sequence[Run]) -> dict[str, Record]:
    found = [run.read("result.json")["metrics"] for run in runs]
    return {name: spread([metrics[name] for metrics in found]) for name in found[0]}


def _gaps(runs: Sequence[Run]) -> dict[str, Record]:
    found = [label_gaps(run.read("labels.json"), run.folder) for run in runs]
    return {task: spread([gaps[task] for gaps in found]) for task in found[0]}


def grid(runs: Sequence[Run]) -> Record:
    """Metrics by dropout and learning rate."""
    cells = grouped(runs, lambda run: (run.learning["dropout"], run.learning["lr"]))
    ordered = sorted(cells.items(), key=lambda cell: (-cell[0][1], cell[0][0]))
    rows = [{"dropout": dropout, "lr": lr, **_made(mine), "metrics": _metrics(mine)} for (dropout, lr), mine in ordered]
    return {"rows": rows}


def distances(runs: Sequence[Run]) -> Record:
    """Distances on dev before and after tuning on triplets, and losses; each is the mean since the last log entry."""
    rows = []
    for encoder, mine in grouped(runs, lambda run: run.encoder).items():
        found = [run.read("distances.json") for run in mine]
        losses = [line["loss"] for run in mine for line in run.logged() if "lr" in line]
        rows.append(
            {
                "encoder": encoder,
                **_made(mine),
                "triplets": found[0]["triplets"],
                "left_out": found[0]["left_out"],
                "steps": sum(run.read("result.json")["steps"] for run in mine),
                "loss": {"logged": len(losses), "above_zero": sum(loss > 0 for loss in losses), "most": max(losses)},
                "tasks": {task: _moved(task, found) for task in found[0]["triplets"]},
            }
        )
    return {"rows": rows}


def _moved(task: str, found: Sequence[Record]) -> Record:
    """A task's distances: means over anchors, then over seeds."""
    moved: Record = {}
    for when in ("before", "after"):
        seen = [one[when]["dev"][task] for one in found]
        means = {name: spread([one[name]["mean"] for one in seen]) for name in ("positive", "negative", "other")}
        moved[when] = {**means, "in_order": spread([one["in_order"] for one in seen])}
    return moved


def glue(runs: Sequence[Run]) -> Record:
    """The encoder's own output and the best head by held-out score, by epochs of tuning and task.

    Raises:
        BertVisionError: a run does not have all tasks of the others.
    """
    rows, averages = [], []
    names = [row["task"] for row in runs[0].read("glue.json")["tasks"]]
    for epochs, mine in sorted(grouped(runs, lambda run: float(run.learning["epochs"])).items()):
        found = []
        for run in mine:
            tasks = {row["task"]: row for row in run.read("glue.json")["tasks"]}
            if list(tasks) != names:
                raise BertVisionError(f"{run.folder.name} has {', '.join(tasks)}. Expected {', '.join(names)}.")
            found.append(tasks)
        judged = [_judged(name, [one[name] for one in found], mine) for name in names]
        rows += [{"epochs": epochs, "task": name, **row} for name, row in zip(names, judged, strict=True)]
        averages += [
            {"epochs": epochs, "tasks": said, "models": _averages([row["models"] for row in counted])}
            for said, counted in {
                "all": judged,
                f"without {MISLEADING}": [row for name, row in zip(names, judged, strict=True) if name != MISLEADING],
            }.items()
        ]
    return {"rows": rows, "averages": averages, "missing": runs[0].read("glue.json")["missing"]}


def _judged(task: str, found: Sequence[Record], runs: Sequence[Run]) -> Record:
    """A task's values for each seed, and its paired tests."""
    heads = [{name.partition("-")[2]: value for name, value in row["heads"].items()} for row in found]
    tests = []
    for row, run in zip(found, runs, strict=True):
        evaluated = run.read(f"{task}/heads/evaluation/dev/evaluation.json")["rows"]
        best = next(one for one in evaluated if one["name"] == row["best"]["name"])
        tests.append(best["scores"]["plain"]["against"][row["metrics"][0]])
    return {
        **_made(runs),
        "metrics": found[0]["metrics"],
        "examples": found[0]["examples"]["dev"],
        "chosen": [row["best"]["name"].partition("-")[2] for row in found],
        "models": {
            "own": spread([row["own"]["mean"] for row in found]),
            "best": spread([row["best"]["mean"] for row in found]),
            **{head: spread([one[head] for one in heads]) for head in sorted(heads[0])},
        },
        "surely_better": sum(test["claimed"] and test["value"] > 0 for test in tests),
        "surely_worse": sum(test["claimed"] and test["value"] < 0 for test in tests),
    }


def _averages(tasks: Sequence[Record]) -> Record:
    """Means of the models over tasks, for each seed."""
    return {
        model: spread([fmean(seed) for seed in zip(*(models[model]["values"] for models in tasks), strict=True)])
        for model in ("own", "last_layer", "best")
    }


KINDS: dict[str, Callable[[Sequence[Run]], Record]] = {
    "multitask": multitask,
    "grid": grid,
    "distances": distances,
    "glue": glue,
}


def collect(kind: str, runs: Sequence[Run], *, name: str, note: str) -> Record:
    """The record of runs of one kind."""
    first = runs[0].read("config.json")
    return {
        "format": 1,
        "kind": kind,
        "name": name,
        "note": note,
        **KINDS[kind](runs),
        "provenance": {**first["provenance"], "command": runs[0].command},
    }


def main() -> None:
    """Read the runs, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("runs", nargs="+", type=Path, help="of multitask: with those of the triplets they go on with")
    parser.add_argument("--name", required=True)
    parser.add_argument("--called", nargs="*", default=[], metavar="FOLDER=NAME", help="what encoders are called")
    parser.add_argument("--note", default="")
    options = parser.parse_args()
    called = dict(word.split("=", 1) for word in options.called)
    runs = [Run(folder, called) for folder in options.runs]
    path = RESULTS / f"{options.name}.json"
    write_json(path, collect(options.kind, runs, name=options.name, note=options.note))
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
