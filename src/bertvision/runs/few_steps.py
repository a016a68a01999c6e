"""A notice where a small table of one's own is passed over too seldom for anything to be learnt."""

import math

from bertvision.amounts import in_words
from bertvision.tasks.own import OWN

FEW_STEPS = 30
"""With fewer steps of the optimiser what learns hardly leaves its first weights."""

ENOUGH_STEPS = 100
"""So many were enough for heads on 14 texts."""


def few_steps_notice(task: str, steps: int, epochs: float, *, otherwise: str = "") -> tuple[str, ...]:
    """A notice of what to do where a run made few steps; none where it is not about files of the user's own.

    Args:
        task: its name; whoever takes a share of a named one knows what that means.
        steps: steps of the optimiser.
        epochs: the epochs that they were made in.
        otherwise: another way that needs no steps, such as `--heads layer_concat`; empty where there is none.
    """
    if task != OWN or steps >= FEW_STEPS:
        return ()
    enough = math.ceil(epochs * ENOUGH_STEPS / steps)
    other = f"; or solve instead of training: {otherwise}" if otherwise else ""
    made = f"{in_words(steps, 'step')} in {in_words(epochs, 'epoch')}"
    return (f"training made {made}, too few to learn much. Use more, such as --epochs {enough}{other}.",)
