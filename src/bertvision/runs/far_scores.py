"""A notice where scores lie farther apart, or nearer, than what is trained in small steps can tell."""

import math

import numpy as np

from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task

LEAST, MOST = 0.03, 30.0
"""Standard deviations of scores that usual rates reach within a few hundred steps."""


def far_scores_notice(task: Task, targets: IntArray | FloatArray, *, otherwise: str = "") -> tuple[str, ...]:
    """What to divide scores by before anything is trained on them; none where they are of usual size, or all alike.

    Args:
        task: whose targets they are.
        targets: targets to learn from.
        otherwise: another way, which takes scores of any size, such as `--heads layer_concat`; empty where there is
            none.
    """
    if task.kind != "scores":
        return ()
    deviation = float(np.std(targets))
    if deviation == 0.0 or LEAST <= deviation <= MOST:
        return ()
    unit = f"{10.0 ** math.floor(math.log10(deviation)):g}"
    other = f"; or solve instead of training: {otherwise}" if otherwise else ""
    size = f"scores have a standard deviation of {deviation:.3g}, and training moves outputs by steps that suit about 1"
    then = "predictions may hardly differ, or not match in size, whatever the correlation"
    return (f"{size}: {then}. Divide scores by {unit} first{other}.",)
