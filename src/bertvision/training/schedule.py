"""How the learning rate moves: a factor for every step."""

import math
from typing import Literal, assert_never

LARGEST_RATE = 1e37
"""Learning rates must be below this: a step with a larger one overflows float32."""

CYCLES = 2
"""How often the schedule `restarts` begins in a run."""

Schedule = Literal["constant", "linear", "cosine", "restarts"]


def rate_factor(step: int, total: int, *, schedule: Schedule, warmup: float = 0.0) -> float:
    """What the learning rate is multiplied with at a step, counted from 0.

    Args:
        step: the step that is about to be made.
        total: steps of the whole run.
        schedule: constant; linear to 0; cosine to 0; or cosine to 0 `CYCLES` times.
        warmup: share of the steps over which the rate first rises from 0.
    """
    rising = warmup * total
    if step < rising:
        return (step + 1) / (rising + 1)
    progress = (step - rising) / max(1.0, total - rising)
    match schedule:
        case "constant":
            return 1.0
        case "linear":
            return max(0.0, 1.0 - progress)
        case "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * progress))
        case "restarts":
            return 0.5 * (1.0 + math.cos(math.pi * ((CYCLES * progress) % 1.0)))
        case _:
            assert_never(schedule)
