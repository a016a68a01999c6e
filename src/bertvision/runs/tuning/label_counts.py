"""LabelCounts: how often each label is there, is learned and is predicted, for plots of what balancing changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertvision.atomic import write_json
from bertvision.evaluation.outputs import merge_rows, predicted_targets
from bertvision.runs.validate import Validation
from bertvision.tasks.examples import FloatArray, IntArray, gold_targets
from bertvision.tasks.task import Task
from bertvision.training.mix import TaskMix, sampled_classes
from bertvision.training.options import TuneOptions

LABELS, PREDICTIONS = "labels.json", "predictions"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Counts of every task with labels or scores, and what was predicted for dev.

    `labels.json` has four counts for each task, by label or by whole score: `train`, the training windows; `learnt`,
    those of the first epoch as they were drawn; `dev`; and `predicted` for dev. `predictions/TASK.json` has gold and
    predicted values of dev, one by one: class numbers, scores or tags.
    """

    run: Path
    mix: TaskMix
    options: TuneOptions
    predicted: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)

    def keep(self, validation: Validation, outputs: NDArray[np.float32]) -> None:
        """Write what a model predicts for dev, and count it."""
        task, dev = validation.task, validation.dev
        if dev is None:
            return
        gold = gold_targets(dev.examples)
        said = predicted_targets(task, merge_rows(task, dev.windows, outputs))
        content = {"format": FORMAT, "labels": task.labels, "ids": dev.examples.ids}
        write_json(
            self.run / PREDICTIONS / f"{task.name}.json",
            content | {"gold": gold.tolist(), "predicted": said.tolist()},
        )
        self.predicted[task.name] = {"dev": count_labels(task, gold), "predicted": count_labels(task, said)}

    def write(self) -> None:
        """Write the counts of all tasks that have any."""
        plan = self.mix.plan(self.options)
        learnt = self.mix.split(np.concatenate(plan.epoch(0)))
        counts: dict[str, Mapping[str, dict[str, int]]] = {}
        for name, data in self.mix.tasks.items():
            targets = data.windows.targets
            if sampled_classes(data.task.kind, targets) is not None:
                counts[name] = {
                    "train": count_labels(data.task, targets),
                    "learnt": count_labels(data.task, targets[learnt[name]]),
                    **self.predicted.get(name, {}),
                }
        write_json(self.run / LABELS, {"format": FORMAT, "tasks": counts})


def count_labels(task: Task, targets: IntArray | FloatArray) -> dict[str, int]:
    """How often each label is right, or each whole number is the nearest to a score; empty for tags and spans."""
    classes = sampled_classes(task.kind, targets)
    if classes is None:
        return {}
    if task.kind == "labels":
        return dict(zip(task.labels, np.bincount(classes, minlength=len(task.labels)).tolist(), strict=True))
    values, counts = np.unique(classes, return_counts=True)
    return {str(value): count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}
