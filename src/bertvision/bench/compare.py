"""Summaries of a cell's seeds: means, standard deviations, the best model by held-out score, and paired tests."""

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
"""Kinds of cells that are represented by the model with the best held-out score; others by their last snapshot."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell of a suite with the results of all its measured seeds.

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
        """Names of the models that all seeds have, in order; a seed that diverged has none."""
        names = [list(entry["result"].get("models", {})) for entry in self.entries.values()]
        return [name for name in names[0] if all(name in others for others in names)] if names else []

    @property
    def by_chance(self) -> bool:
        """Whether the result depends on the seed; if not, only one seed was measured, which stands for all."""
        return self.kind != SENTENCES or from_json(SentenceSettings, self.settings).by_chance

    def with_seed(self, seed: int) -> Mapping[str, Any]:
        """The entry of a seed; the only entry if the result does not depend on the seed."""
        return self.entries[seed] if self.by_chance else next(iter(self.entries.values()))

    def over_seeds(self, model: str, read: Callable[[Mapping[str, Any]], float | None]) -> list[float]:
        """A value of a model for every seed; seeds without it (None) are left out."""
        values = [read(entry["result"]["models"][model]) for entry in self.entries.values()]
        return [value for value in values if value is not None]

    def best(self, models: Sequence[str] | None = None) -> str:
        """The model with the best mean held-out score over seeds, of some models or all; of equal ones the first."""

        def held_out(model: str) -> float:
            values = self.over_seeds(model, lambda one: one["held_out"])
            return statistics.fmean(values) if values else -np.inf

        return max(self.models if models is None else models, key=held_out)


def measured_cells(record: Mapping[str, Any]) -> list[Measured]:
    """The cells of the suite's current plan, in its order, with the entries that were measured with these settings."""
    cells = []
    for planned in record["plan"]:
        matching = [
            one
            for one in record["cells"].values()
            if one["kind"] == planned["kind"] and agrees(one["settings"], planned["settings"])
        ]
        entries = {one["seed"]: one for one in sorted(matching, key=lambda one: one["seed"])}
        cells.append(Measured(planned["name"], planned["kind"], planned["settings"], entries))
    return cells


def mean_and_spread(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and standard deviation; None without any values, and without a second one."""
    if not values:
        return None, None
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def find_model(cells: Iterable[Measured], words: str) -> tuple[Measured, str] | None:
    """The model named by `CELL:MODEL`, or the best of `CELL` by held-out score; None if it is not measured."""
    name, _, model = words.partition(":")
    cell = next((one for one in cells if one.name == name), None)
    if cell is None or not cell.models or (model and model not in cell.models):
        return None
    return cell, model or cell.best()


def shared_seeds(first: Measured, second: Measured) -> list[int]:
    """The seeds for which both are measured; all seeds of one if the other does not depend on the seed."""
    seeds, others = set(first.entries), set(second.entries)
    if seeds and others and first.by_chance != second.by_chance:
        return sorted(seeds if first.by_chance else others)
    return sorted(seeds & others)


def paired_test(first: tuple[Measured, str], second: tuple[Measured, str]) -> tuple[Difference, list[float]] | None:
    """The difference of two models on dev in points, by a paired bootstrap test, and for each of their `shared_seeds`.

    In every resample of the examples, scores are averaged over these seeds. None without shared seeds or outcomes.
    """
    seeds = shared_seeds(first[0], second[0])
    sides = [[_scored(cell, model, seed) for seed in seeds] for cell, model in (first, second)]
    scored = [[one for one in side if one is not None] for side in sides]
    if not seeds or any(len(side) < len(seeds) for side in scored):
        return None
    metrics = [_mean_of([metric for metric, _ in side]) for side in scored]
    differences = paired_difference(metrics[0], metrics[1], scored[0][0][1], resamples=RESAMPLES)
    points = [[float(metric(np.ones((1, rows)))[POINTS][0]) for metric, rows in side] for side in scored]
    return differences[POINTS], [one - other for one, other in zip(*points, strict=True)]


def _scored(cell: Measured, model: str, seed: int) -> tuple[Metric, int] | None:
    """A model's metric for a seed, in points, and the number of examples; None if their outcomes are not kept.

    Without gold targets the outcomes are scores, whose mean is the metric; else it is the task's first metric.
    """
    result = cell.with_seed(seed)["result"]
    line, golds = result["models"][model]["outcomes"], result.get("golds")
    if line is None:
        return None
    values = unpack_outcomes(line)
    if golds is None:
        return partial(_mean_points, values), len(values)
    task = find_task(str(cell.settings["task"]))
    first_metric = replace(task, metrics=task.metrics[:1])
    scoring = score_targets(first_metric, unpack_outcomes(golds), values)
    return partial(_metric_points, scoring, task.metrics[0]), len(values)


def _mean_points(values: FloatArray, counts: FloatArray) -> dict[str, FloatArray]:
    return {POINTS: 100.0 * (counts @ values) / counts.sum(axis=1)}


def _metric_points(scoring: Scoring, metric: str, counts: FloatArray) -> dict[str, FloatArray]:
    return {POINTS: 100.0 * scoring.metric(counts)[metric]}


def _mean_of(metrics: Sequence[Metric]) -> Metric:
    """The metric that averages those of several seeds, for the same counts of the examples in a resample."""
    return lambda counts: {POINTS: np.mean([metric(counts)[POINTS] for metric in metrics], axis=0)}
