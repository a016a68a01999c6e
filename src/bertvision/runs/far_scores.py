"""A notice for scores whose standard deviation is too large or too small for gradient steps of the usual size."""

import math

import numpy as np

from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task

LEAST, MOST = 0.03, 30.0
"""Range of standard deviations that heads can fit within a few hundred steps at the usual learning rates."""


def far_scores_notice(task: Task, targets: IntArray | FloatArray, *, otherwise: str = "") -> tuple[str, ...]:
    """A notice that says what to divide scores by; none if their spread is usual, or if all are equal.

    Args:
        task: the task of the targets.
        targets: training targets.
        otherwise: an alternative to suggest that takes scores of any size, such as `--heads layer_concat`; empty if
            there is none.
    """
    if task.kind != "scores":
        return ()
    deviation = float(np.std(targets))
    if deviation == 0.0 or LEAST <= deviation <= MOST:
        return ()
    unit = f"{10.0 ** math.floor(math.log10(deviation)):g}"
    other = f"; or solve instead of training: {otherwise}" if otherwise else ""
    size = f"scores have a standard deviation of {deviation:.3g}, and training moves outputs by steps that suit about 1"
    effect = "predictions may hardly differ, or not match in size, whatever the correlation"
    return (f"{size}: {effect}. Divide scores by {unit} first{other}.",)
