"""Learning rate schedules: a factor of the peak learning rate for every step."""

import math
from typing import Literal, assert_never

LARGEST_RATE = 1e37
"""Learning rates must be below this: a step with a larger one overflows float32."""

CYCLES = 2
"""How often the schedule `restarts` begins in a run."""

Schedule = Literal["constant", "linear", "cosine", "restarts"]


def rate_factor(step: int, total: int, *, schedule: Schedule, warmup: float = 0.0) -> float:
    """The factor of the peak learning rate at a step.

    Args:
        step: number of the step that is about to be made, from 0.
        total: steps of the whole run.
        schedule: constant; linear decay to 0; cosine decay to 0; or the latter `CYCLES` times.
        warmup: share of the steps of a linear warm-up from 0.
    """
    warmup_steps = warmup * total
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    progress = (step - warmup_steps) / (total - warmup_steps)
    match schedule:
        case "constant":
            return 1.0
        case "linear":
            return 1.0 - progress
        case "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * progress))
        case "restarts":
            return 0.5 * (1.0 + math.cos(math.pi * ((CYCLES * progress) % 1.0)))
        case _:
            assert_never(schedule)
