"""A convex head on rows in memory: solved in one go."""

import torch
from torch import Tensor

from bertvision.heads.last_layer import LastLayer
from bertvision.heads.layer_concat import LayerConcat
from bertvision.runs.states import RowStates
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task
from bertvision.training.solve import Solution, solve_linear
from bertvision.training.trainee import Trainee

CONVEX = (LastLayer, LayerConcat)
"""Linear maps of states: their best weights can be solved for."""


def solve_trainee(
    trainee: Trainee,
    task: Task,
    *,
    train: tuple[RowStates, IntArray | FloatArray],
    held_out: tuple[RowStates, IntArray | FloatArray],
) -> Solution:
    """Put the best weights into a convex head; the held-out examples choose the strength of the penalty.

    Args:
        trainee: with a head that is one of `CONVEX`.
        task: with labels or scores.
        train: rows and targets to learn from.
        held_out: rows and targets that judge the strength; they are not learnt from.
    """
    with trainee.watch:
        chosen = torch.arange(len(train[1])) if trainee.rows is None else torch.from_numpy(trainee.rows).nonzero()[:, 0]
        solution = solve_linear(
            _inputs(trainee, train[0])[chosen],
            torch.from_numpy(train[1])[chosen],
            held_out=(_inputs(trainee, held_out[0]), torch.from_numpy(held_out[1])),
            labels=len(task.labels) if task.kind == "labels" else None,
        )
        trainee.head.project.weight.data.copy_(solution.weight)
        trainee.head.project.bias.data.copy_(solution.bias)
    return solution


def _inputs(trainee: Trainee, states: RowStates) -> Tensor:
    """What the head's last map reads, (examples, inputs)."""
    reads = trainee.head.reads
    return states.rows[:, reads[0] - states.lowest : reads[-1] - states.lowest + 1].flatten(1)
