"""A notice for small files of the user's own and few epochs: too few optimiser steps to learn much."""

import math

from bertvision.amounts import in_words
from bertvision.tasks.own import OWN

FEW_STEPS = 30
"""With fewer optimiser steps, weights hardly move from their initial values."""

ENOUGH_STEPS = 100
"""The optimiser steps that a notice recommends: enough for heads on 14 texts."""


def few_steps_notice(task: str, steps: int, epochs: float, *, otherwise: str = "") -> tuple[str, ...]:
    """A notice that recommends more epochs if a run has few steps; none unless the task is `own`.

    Args:
        task: name of the task. A named one has few steps only where the user chose a small share of it on purpose.
        steps: optimiser steps of the run.
        epochs: epochs of the run.
        otherwise: an alternative to suggest that needs no steps, such as `--heads layer_concat`; empty if there is
            none.
    """
    if task != OWN or steps >= FEW_STEPS:
        return ()
    enough = math.ceil(epochs * ENOUGH_STEPS / steps)
    other = f"; or solve instead of training: {otherwise}" if otherwise else ""
    made = f"{in_words(steps, 'step')} in {in_words(epochs, 'epoch')}"
    return (f"training made {made}, too few to learn much. Use more, such as --epochs {enough}{other}.",)
