"""The head that is trained together with an encoder: built for a task, and initialised for its targets."""

import numpy as np

from bertvision.errors import BertVisionError, MisfitError
from bertvision.heads import Head, HeadOptions, HeadShape, build_head
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task


def build_task_head(name: str, shape: HeadShape, options: HeadOptions, task: Task) -> Head:
    """A head by name, for a task.

    Raises:
        MisfitError: there is no such head or option, or it pools the tokens of a task of kind `spans`.
    """
    try:
        head = build_head(name, shape, options)
    except BertVisionError as error:
        raise MisfitError(str(error)) from None
    if head.token_pool is not None and task.kind == "spans":
        raise MisfitError(f"tokens=attention makes one row of a text; {task.name} needs one for every token.")
    return head


def start_at_mean(head: Head, task: Task, targets: IntArray | FloatArray) -> None:
    """Set the bias of a head for scores to their mean, which is a better start than zero; others stay as they are."""
    if task.kind == "scores":
        head.project.bias.data.fill_(float(np.mean(targets)))
