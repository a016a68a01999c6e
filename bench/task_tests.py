"""Predictions that runs keep → paired tests over examples, and how far predicted labels are from the true ones."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.evaluation.bootstrap import Metric, paired_difference
from bertvision.evaluation.score import Scoring, score_targets
from bertvision.tasks.examples import FloatArray
from bertvision.tasks.load import TASKS

RESAMPLES = 2000


def paired_tests(first: Sequence[Path], second: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """By `TASK.METRIC`: how much higher the mean of the first runs is than that of the second, on the same examples.

    Examples are drawn, runs are not: what seeds do to a difference is told by `apart`, whether every value of one side
    is beyond all of the other's.

    Args:
        first: folders of runs that differ in their seed alone.
        second: those they are compared with.

    Raises:
        BertVisionError: the runs were not judged on the same examples.
    """
    found = {}
    for path in sorted((first[0] / "predictions").glob("*.json")):
        task = path.stem
        ours, theirs = ([_scored(folder, task, path) for folder in side] for side in (first, second))
        tests = paired_difference(_mean_of(ours), _mean_of(theirs), ours[0].rows, resamples=RESAMPLES)
        for metric, test in tests.items():
            mine, other = ([one.values[metric] for one in side] for side in (ours, theirs))
            found[f"{task}.{metric}"] = {
                "value": test.value,
                "low": test.interval.low,
                "high": test.interval.high,
                "p": test.p,
                "apart": min(mine) > max(other) or max(mine) < min(other),
            }
    return found


def _scored(folder: Path, task: str, like: Path) -> Scoring:
    content, expected = (json.loads(path.read_text("utf-8")) for path in (folder / "predictions" / like.name, like))
    if (content["ids"], content["gold"]) != (expected["ids"], expected["gold"]):
        raise BertVisionError(f"{folder.name} was judged on other examples of {task} than {like.parents[1].name}.")
    return score_targets(TASKS[task], np.array(content["gold"]), np.array(content["predicted"]))


def _mean_of(seeds: Sequence[Scoring]) -> Metric:
    """The mean over seeds: of a metric that is a mean over examples, that of each example's mean."""

    def metric(counts: FloatArray) -> Mapping[str, FloatArray]:
        found = [one.metric(counts) for one in seeds]
        return {name: np.mean([values[name] for values in found], axis=0) for name in found[0]}

    return metric


def label_gaps(labels: Mapping[str, Any], folder: Path) -> dict[str, float]:
    """By task with labels: the share of dev examples that would need another prediction for the counts to be true."""
    gaps = {}
    for task, counts in labels["tasks"].items():
        if json.loads((folder / "predictions" / f"{task}.json").read_text("utf-8"))["labels"]:
            there, said = counts["dev"], counts["predicted"]
            off = sum(abs(there.get(name, 0) - said.get(name, 0)) for name in {**there, **said})
            gaps[task] = off / 2 / sum(there.values())
    return gaps
