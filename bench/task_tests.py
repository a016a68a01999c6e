"""Paired tests of runs by their predictions, and differences between predicted and true label counts."""

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
    """By `TASK.METRIC`: the difference of the mean of the first runs from that of the second, on the same examples.

    The bootstrap resamples examples, not seeds. `apart` shows whether seeds matter: it is True if all values of one
    side are larger than all of the other.

    Args:
        first: folders of runs that differ only in their seed.
        second: folders of the runs to compare with, which differ only in their seed.

    Raises:
        BertVisionError: the runs have predictions of different examples.
    """
    results = {}
    for path in sorted((first[0] / "predictions").glob("*.json")):
        task = path.stem
        scorings = [[_scored(folder, task, path) for folder in side] for side in (first, second)]
        metrics = [_mean_of(side) for side in scorings]
        tests = paired_difference(metrics[0], metrics[1], scorings[0][0].rows, resamples=RESAMPLES)
        for metric, test in tests.items():
            ours, theirs = ([one.values[metric] for one in side] for side in scorings)
            results[f"{task}.{metric}"] = {
                "value": test.value,
                "low": test.interval.low,
                "high": test.interval.high,
                "p": test.p,
                "apart": min(ours) > max(theirs) or max(ours) < min(theirs),
            }
    return results


def _scored(folder: Path, task: str, like: Path) -> Scoring:
    content, expected = (json.loads(path.read_text("utf-8")) for path in (folder / "predictions" / like.name, like))
    if (content["ids"], content["gold"]) != (expected["ids"], expected["gold"]):
        raise BertVisionError(f"{folder.name} was judged on other examples of {task} than {like.parents[1].name}.")
    return score_targets(TASKS[task], np.array(content["gold"]), np.array(content["predicted"]))


def _mean_of(seeds: Sequence[Scoring]) -> Metric:
    """The metric that averages those of several seeds, for the same counts of the examples in a resample."""

    def metric(counts: FloatArray) -> Mapping[str, FloatArray]:
        by_seed = [one.metric(counts) for one in seeds]
        return {name: np.mean([values[name] for values in by_seed], axis=0) for name in by_seed[0]}

    return metric


def label_gaps(labels: Mapping[str, Any], folder: Path) -> dict[str, float]:
    """By task with labels: the smallest share of dev predictions to change so that label counts equal the true ones."""
    gaps = {}
    for task, counts in labels["tasks"].items():
        if json.loads((folder / "predictions" / f"{task}.json").read_text("utf-8"))["labels"]:
            true, predicted = counts["dev"], counts["predicted"]
            difference = sum(abs(true.get(name, 0) - predicted.get(name, 0)) for name in {**true, **predicted})
            gaps[task] = difference / 2 / sum(true.values())
    return gaps
