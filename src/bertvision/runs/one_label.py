"""A notice where all held-out examples have the same label: their scores look perfect, and choose nothing."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertvision.amounts import in_words
from bertvision.tasks.task import Task


def one_label_notice(task: Task, held_out: NDArray[Any] | None) -> tuple[str, ...]:
    """A notice where held-out examples have a single label; none for tasks of another kind.

    Args:
        task: what is asked.
        held_out: targets of the held-out examples; None where nothing is held out.
    """
    if task.kind != "labels" or held_out is None or len(np.unique(held_out)) > 1:
        return ()
    label, count = task.labels[int(held_out[0])], in_words(len(held_out), "example")
    then = "Hold out more with --held-out, or use more examples of other labels."
    return (
        f"held out is {count} of the label '{label}' alone, so scores on them say nothing and choose nothing. {then}",
    )
