"""Solver: solves convex heads on rows in memory; heads with the same solution are solved only once."""

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
"""Heads that are linear maps of states: the loss is convex, so that they can be solved instead of trained."""

TUNED_STRENGTH = 10.0
"""Strength of the penalty on states of an encoder that was tuned on the same texts, with few held-out ones."""

MIN_VALIDATION = 50
"""Fewest held-out examples that choose the strength of such a penalty: fewer would choose by chance."""


def solve_task(  # noqa: PLR0913 - what a solution depends on, by keyword
    task: Task,
    inputs: Tensor,
    targets: IntArray | FloatArray,
    *,
    layout: Layout,
    groups: IntArray | None = None,
    validation: tuple[Tensor, IntArray | FloatArray] | None = None,
    weights: Tensor | None = None,
) -> Solution:
    """Solve for the best linear map; of two labels, the decision threshold maximises the mean of the task's metrics.

    Args:
        task: of kind labels, tags or scores.
        inputs: (examples, inputs), float32.
        targets: of every example; see `solve_linear`.
        layout: of the inputs.
        groups: (examples,) the same number for copies of a text; None if there are no copies.
        validation: inputs and targets of held-out examples, if the encoder was tuned on the others: in folds of those,
            states look better than those of new texts, and favour weak penalties. None if it was not.
        weights: (classes,) factor of the loss of each class's examples; with it no threshold is fitted.
    """
    few = validation is not None and len(validation[1]) < MIN_VALIDATION
    return solve_linear(
        inputs,
        torch.from_numpy(targets),
        kind=task.kind,
        outputs=task.outputs,
        groups=groups,
        validation=None if validation is None else (validation[0], torch.from_numpy(validation[1])),
        strengths=(TUNED_STRENGTH,) if few else None,
        layout=layout,
        weights=weights,
        score=partial(_mean_metric, task) if weights is None and _fits_threshold(task) else None,
    )


def _fits_threshold(task: Task) -> bool:
    """Whether a decision threshold is fitted: for two labels, unless the main metric is accuracy.

    For accuracy the more probable label is always the better prediction; for F1, say, it need not be.
    """
    return task.kind == "labels" and task.outputs == 2 and task.metrics[0] != "accuracy"


def _mean_metric(task: Task, golds: IntArray, predictions: IntArray, counts: FloatArray) -> float:
    """The mean of the task's metrics, with every example weighted by its count."""
    values = weighted_label_metrics(golds, predictions, counts[None], classes=task.outputs, metrics=task.metrics)
    return float(np.mean(list(values.values())))


@final
class Solver:
    """Solves the heads of one run; heads that differ only in learning rate, seed or dropout get the same solution."""

    def __init__(
        self,
        task: Task,
        *,
        train: tuple[RowStates, IntArray | FloatArray],
        groups: IntArray | None = None,
        held_out: tuple[RowStates, IntArray | FloatArray] | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """Keep the training data of all heads.

        Args:
            task: of kind labels, tags or scores.
            train: training rows and their targets.
            groups: (rows,) the same number for copies of a text; None if there are no copies.
            held_out: held-out rows and their targets, if the encoder was tuned on the training texts; see `solve_task`.
            weights: (classes,) factor of the loss of each class's examples; None leaves all losses as they are.
        """
        self._task = task
        self._states, self._targets = train
        self._groups = groups
        self._held_out = held_out
        self._weights = weights
        self._solved: dict[tuple[tuple[int, ...], float], tuple[Solution, float]] = {}

    def solve(self, trainee: Trainee) -> Solution:
        """Solve a head of a class in `CONVEX` and set its weights; a repeated solution reports its original seconds."""
        # a solution depends only on the layers, and on the share of the examples
        key = trainee.head.reads, trainee.spec.fraction
        if key in self._solved:
            solution, trainee.watch.seconds = self._solved[key]
            _set_weights(solution, trainee)
            return solution
        with trainee.watch:
            solution = self._solution(trainee)
            _set_weights(solution, trainee)
        self._solved[key] = solution, trainee.watch.seconds
        return solution

    def _solution(self, trainee: Trainee) -> Solution:
        """The solution on a head's training rows."""
        head = trainee.head
        inputs, targets, groups = self._states.rows[:, head.among(self._states.lowest)], self._targets, self._groups
        if trainee.rows is not None:
            rows = np.flatnonzero(trainee.rows)
            inputs, targets = inputs[torch.from_numpy(rows)], targets[rows]
            groups = None if groups is None else groups[rows]
        validation = None
        if self._held_out is not None:
            states, judged = self._held_out
            validation = states.rows[:, head.among(states.lowest)].flatten(1), judged
        return solve_task(
            self._task,
            inputs.flatten(1),
            targets,
            layout=row_layout(len(head.reads), self._states.pairs),
            groups=groups,
            validation=validation,
            weights=self._weights,
        )


def _set_weights(solution: Solution, trainee: Trainee) -> None:
    trainee.head.project.weight.data.copy_(solution.weight)
    trainee.head.project.bias.data.copy_(solution.bias)
