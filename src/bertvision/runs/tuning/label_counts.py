"""LabelCounts: how often each label is in the data, drawn for training and predicted, to see what balancing does."""

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
    """Writes label counts of every task with labels or scores, and the predictions on dev.

    `labels.json` has four counts for each task, by label or by score rounded to a whole number: `train`, of the
    training windows; `learnt`, of the windows drawn in the first epoch; `dev`; and `predicted` on dev.
    `predictions/TASK.json` has the gold and predicted value of every dev example: class numbers, scores or tags.

    Attributes:
        run: folder of the run.
        mix: the training data.
        options: training options, which decide what is drawn.
        predicted: the counts on dev so far, by task.
    """

    run: Path
    mix: TaskMix
    options: TuneOptions
    predicted: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)

    def keep(self, validation: Validation, outputs: NDArray[np.float32]) -> None:
        """Write the predictions of a task's model on dev, and count them.

        Args:
            validation: has the task and its dev split; without one nothing happens.
            outputs: (windows, outputs) of the dev split.
        """
        task, dev = validation.task, validation.dev
        if dev is None:
            return
        gold = gold_targets(dev.examples)
        predicted = predicted_targets(task, merge_rows(task, dev.windows, outputs))
        content = {"format": FORMAT, "labels": task.labels, "ids": dev.examples.ids}
        write_json(
            self.run / PREDICTIONS / f"{task.name}.json",
            content | {"gold": gold.tolist(), "predicted": predicted.tolist()},
        )
        self.predicted[task.name] = {"dev": count_labels(task, gold), "predicted": count_labels(task, predicted)}

    def write(self) -> None:
        """Write `labels.json`, with all tasks that have counts."""
        plan = self.mix.plan(self.options)
        drawn = self.mix.split(np.concatenate(plan.epoch(0)))
        counts: dict[str, Mapping[str, dict[str, int]]] = {}
        for name, data in self.mix.tasks.items():
            targets = data.windows.targets
            if sampled_classes(data.task.kind, targets) is not None:
                counts[name] = {
                    "train": count_labels(data.task, targets),
                    "learnt": count_labels(data.task, targets[drawn[name]]),
                    **self.predicted.get(name, {}),
                }
        write_json(self.run / LABELS, {"format": FORMAT, "tasks": counts})


def count_labels(task: Task, targets: IntArray | FloatArray) -> dict[str, int]:
    """How often each label occurs in targets, or each score rounded to a whole number; empty for tags and spans."""
    classes = sampled_classes(task.kind, targets)
    if classes is None:
        return {}
    if task.kind == "labels":
        return dict(zip(task.labels, np.bincount(classes, minlength=len(task.labels)).tolist(), strict=True))
    values, counts = np.unique(classes, return_counts=True)
    return {str(value): count for value, count in zip(values.tolist(), counts.tolist(), strict=True)}
