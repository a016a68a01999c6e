"""What the seeds of a cell say together: means, spreads, the best by held-out examples, and paired tests."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bertvision.bench.environment import agrees
from bertvision.bench.outcomes import unpack_outcomes
from bertvision.bench.sentence_settings import SENTENCES, SentenceSettings
from bertvision.evaluation.bootstrap import Difference, Metric, paired_difference
from bertvision.evaluation.score import Scoring, score_targets
from bertvision.tasks.examples import FloatArray
from bertvision.tasks.load import find_task
from bertvision.typed_json import from_json

RESAMPLES = 5000
POINTS = "points"
CHOSEN = ("heads", "ensemble")
"""Kinds of cells of which held-out examples choose the model; of others it is the last snapshot."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell of a suite with all seeds that were measured.

    Attributes:
        name: name of the cell.
        kind: kind of the cell.
        settings: settings of the cell.
        entries: entries of the record, by seed.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]
    entries: Mapping[int, Mapping[str, Any]]

    @property
    def models(self) -> list[str]:
        """Names of the models that every seed has, in order; those that diverged have none."""
        found = [list(one["result"].get("models", {})) for one in self.entries.values()]
        return [name for name in found[0] if all(name in others for others in found)] if found else []

    @property
    def by_chance(self) -> bool:
        """Whether another seed may give another result; where none can, one was measured, which stands for all."""
        return self.kind != SENTENCES or from_json(SentenceSettings, self.settings).by_chance

    def with_seed(self, seed: int) -> Mapping[str, Any]:
        """What was measured with a seed, or with any where chance plays no part."""
        return self.entries[seed] if self.by_chance else next(iter(self.entries.values()))

    def over_seeds(self, model: str, read: Callable[[Mapping[str, Any]], float | None]) -> list[float]:
        """A number of a model with every seed that has it."""
        found = [read(entry["result"]["models"][model]) for entry in self.entries.values()]
        return [value for value in found if value is not None]

    def best(self, models: Sequence[str] | None = None) -> str:
        """Which model, of some or all, is best by held-out examples, the mean over seeds; of equal ones the first."""

        def held_out(model: str) -> float:
            values = self.over_seeds(model, lambda one: one["held_out"])
            return statistics.fmean(values) if values else -np.inf

        return max(self.models if models is None else models, key=held_out)


def measured_cells(record: Mapping[str, Any]) -> list[Measured]:
    """The cells that a suite asks for now, in its order, with what was measured with these very settings."""
    cells = []
    for planned in record["plan"]:
        alike = [
            one
            for one in record["cells"].values()
            if one["kind"] == planned["kind"] and agrees(one["settings"], planned["settings"])
        ]
        entries = {one["seed"]: one for one in sorted(alike, key=lambda one: one["seed"])}
        cells.append(Measured(planned["name"], planned["kind"], planned["settings"], entries))
    return cells


def mean_and_spread(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean, and the standard deviation of several; None where there is none."""
    if not values:
        return None, None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def find_model(cells: Iterable[Measured], words: str) -> tuple[Measured, str] | None:
    """The model that `CELL:MODEL` means, or the best of `CELL` by held-out examples; None if it is not measured."""
    name, _, model = words.partition(":")
    cell = next((one for one in cells if one.name == name), None)
    if cell is None or not cell.models or (model and model not in cell.models):
        return None
    return cell, model or cell.best()


def shared_seeds(first: Measured, second: Measured) -> list[int]:
    """The seeds with which both can be compared: those of one alone where chance plays no part in the other."""
    ours, theirs = set(first.entries), set(second.entries)
    if ours and theirs and first.by_chance != second.by_chance:
        return sorted(ours if first.by_chance else theirs)
    return sorted(ours & theirs)


def paired_test(first: tuple[Measured, str], second: tuple[Measured, str]) -> tuple[Difference, list[float]] | None:
    """The difference of two models in points, over the examples of dev, and that with each of their `shared_seeds`.

    A draw of examples counts with the mean over those seeds. None where there are none, or outcomes are not kept.
    """
    seeds = shared_seeds(first[0], second[0])
    sides = [[_scored(cell, model, seed) for seed in seeds] for cell, model in (first, second)]
    ours, theirs = ([one for one in side if one is not None] for side in sides)
    if not seeds or len(ours) < len(seeds) or len(theirs) < len(seeds):
        return None
    metrics = [_mean_of([metric for metric, _ in side]) for side in (ours, theirs)]
    found = paired_difference(metrics[0], metrics[1], ours[0][1], resamples=RESAMPLES)
    whole = [[float(metric(np.ones((1, rows)))[POINTS][0]) for metric, rows in side] for side in (ours, theirs)]
    return found[POINTS], [one - other for one, other in zip(*whole, strict=True)]


def _scored(cell: Measured, model: str, seed: int) -> tuple[Metric, int] | None:
    """Points of a model with a seed, and of how many examples: the task's first metric, or the mean of scores."""
    result = cell.with_seed(seed)["result"]
    line, golds = result["models"][model]["outcomes"], result.get("golds")
    if line is None:
        return None
    values = unpack_outcomes(line)
    if golds is None:
        return partial(_mean_points, values), len(values)
    task = find_task(str(cell.settings["task"]))
    alone = replace(task, metrics=task.metrics[:1])
    return partial(_metric_points, score_targets(alone, unpack_outcomes(golds), values), task.metrics[0]), len(values)


def _mean_points(values: FloatArray, counts: FloatArray) -> dict[str, FloatArray]:
    return {POINTS: 100.0 * (counts @ values) / counts.sum(axis=1)}


def _metric_points(scoring: Scoring, metric: str, counts: FloatArray) -> dict[str, FloatArray]:
    return {POINTS: 100.0 * scoring.metric(counts)[metric]}


def _mean_of(metrics: Sequence[Metric]) -> Metric:
    """The mean over seeds, of examples that count more or less often."""
    return lambda counts: {POINTS: np.mean([metric(counts)[POINTS] for metric in metrics], axis=0)}
