"""Convex heads on rows in memory: each solved in one go, and those that have the same answer once."""

from functools import partial
from typing import final

import numpy as np
import torch
from torch import Tensor

from bertvision.evaluation.weighted import weighted_label_metrics
from bertvision.heads.last_layer import LastLayer
from bertvision.heads.layer_concat import LayerConcat
from bertvision.inference.computed_states import RowStates
from bertvision.inference.pair_rows import row_layout
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task
from bertvision.training.linear_problem import Layout
from bertvision.training.solve import Solution, solve_linear
from bertvision.training.trainee import Trainee

CONVEX = (LastLayer, LayerConcat)
"""Linear maps of states: their best weights can be solved for."""


def solve_task(  # noqa: PLR0913 - what a solution depends on, by keyword
    task: Task,
    inputs: Tensor,
    targets: IntArray | FloatArray,
    *,
    layout: Layout,
    groups: IntArray | None = None,
    weights: Tensor | None = None,
) -> Solution:
    """The best linear map for a task; between two labels is decided as its metrics want it.

    Args:
        task: with labels, tags or scores.
        inputs: (examples, inputs), float32.
        targets: targets of every example.
        layout: layout of the inputs.
        groups: (examples,) copies of a text have the same number; None where there are none.
        weights: (classes,) how much an example of each class counts; they then decide alone.
    """
    return solve_linear(
        inputs,
        torch.from_numpy(targets),
        kind=task.kind,
        outputs=task.outputs,
        groups=groups,
        layout=layout,
        weights=weights,
        score=partial(_mean_metric, task) if weights is None and _shifts(task) else None,
    )


def _shifts(task: Task) -> bool:
    """Whether the likelier label may not be the better answer: accuracy alone wants the likelier one."""
    return task.kind == "labels" and task.outputs == 2 and task.metrics[0] != "accuracy"


def _mean_metric(task: Task, golds: IntArray, predictions: IntArray, counts: FloatArray) -> float:
    values = weighted_label_metrics(golds, predictions, counts[None], classes=task.outputs, metrics=task.metrics)
    return float(np.mean(list(values.values())))


@final
class Solver:
    """Solves heads of one run; what learning rates, seeds and dropout cannot change is solved once and copied."""

    def __init__(
        self,
        task: Task,
        *,
        train: tuple[RowStates, IntArray | FloatArray],
        groups: IntArray | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """Take what all of them are solved from.

        Args:
            task: with labels, tags or scores.
            train: rows and targets to learn from.
            groups: (rows,) copies of a text have the same number; None where there are none.
            weights: (classes,) how much an example of each class counts.
        """
        self._task = task
        self._states, self._targets = train
        self._groups = groups
        self._weights = weights
        self._solved: dict[tuple[tuple[int, ...], float], tuple[Solution, float]] = {}

    def solve(self, trainee: Trainee) -> Solution:
        """Put the best weights into a head that is one of `CONVEX`; the seconds of a copy are those of the solution."""
        # all that the answer depends on: the layers of the rows, and which of them
        key = trainee.head.reads, trainee.spec.fraction
        if key in self._solved:
            solution, trainee.watch.seconds = self._solved[key]
            _put(solution, trainee)
            return solution
        with trainee.watch:
            solution = self._solution(trainee)
            _put(solution, trainee)
        self._solved[key] = solution, trainee.watch.seconds
        return solution

    def _solution(self, trainee: Trainee) -> Solution:
        """The best weights for the rows that a head learns from; folds of them choose the strength of the penalty."""
        rows = np.arange(len(self._targets)) if trainee.rows is None else np.flatnonzero(trainee.rows)
        head = trainee.head
        inputs = self._states.rows[:, head.among(self._states.lowest)].flatten(1)
        return solve_task(
            self._task,
            inputs[torch.from_numpy(rows)],
            self._targets[rows],
            layout=row_layout(len(head.reads), self._states.pairs),
            groups=None if self._groups is None else self._groups[rows],
            weights=self._weights,
        )


def _put(solution: Solution, trainee: Trainee) -> None:
    trainee.head.project.weight.data.copy_(solution.weight)
    trainee.head.project.bias.data.copy_(solution.bias)
