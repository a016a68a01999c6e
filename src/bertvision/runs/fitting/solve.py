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


def solve_trainee(
    trainee: Trainee,
    task: Task,
    *,
    train: tuple[RowStates, IntArray | FloatArray],
    groups: IntArray | None = None,
    weights: Tensor | None = None,
) -> Solution:
    """Put the best weights into a convex head; folds of its examples choose the strength of the penalty.

    Args:
        trainee: with a head that is one of `CONVEX`.
        task: with labels, tags or scores.
        train: rows and targets to learn from.
        groups: (rows,) copies of a text have the same number; None where there are none.
        weights: (classes,) how much an example of each class counts.
    """
    with trainee.watch:
        chosen = torch.arange(len(train[1])) if trainee.rows is None else torch.from_numpy(trainee.rows).nonzero()[:, 0]
        inputs = _inputs(trainee, train[0])[chosen]
        layout = row_layout(len(trainee.head.reads), train[0].pairs)
        mine = None if groups is None else groups[chosen.numpy()]
        solution = solve_task(task, inputs, train[1][chosen.numpy()], groups=mine, layout=layout, weights=weights)
        _put(solution, trainee)
    return solution


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
        targets: of every example.
        layout: of the inputs.
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
        """Take what all of them are solved from; see `solve_trainee`."""
        self._task = task
        self._train = train
        self._groups = groups
        self._weights = weights
        self._solved: dict[tuple[tuple[int, ...], float], tuple[Solution, float]] = {}

    def solve(self, trainee: Trainee) -> Solution:
        """Put the best weights into a head; the seconds of a copy are those of the solution."""
        # all that the answer depends on: the layers of the rows, and which of them
        key = trainee.head.reads, trainee.spec.fraction
        if key in self._solved:
            solution, trainee.watch.seconds = self._solved[key]
            _put(solution, trainee)
            return solution
        solution = solve_trainee(trainee, self._task, train=self._train, groups=self._groups, weights=self._weights)
        self._solved[key] = solution, trainee.watch.seconds
        return solution


def _put(solution: Solution, trainee: Trainee) -> None:
    trainee.head.project.weight.data.copy_(solution.weight)
    trainee.head.project.bias.data.copy_(solution.bias)


def _inputs(trainee: Trainee, states: RowStates) -> Tensor:
    """What the head's last map reads, (examples, inputs)."""
    reads = trainee.head.reads
    return states.rows[:, reads[0] - states.lowest : reads[-1] - states.lowest + 1].flatten(1)
