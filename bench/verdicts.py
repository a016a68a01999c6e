"""Whether what a document claims holds, does not, or cannot be told at 95 %."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, assert_never

HOLDS, FAILS, OPEN = "holds", "does not hold", "not shown"
Says = Literal["more", "less", "same"]


class Sure(NamedTuple):
    """A difference, and whether it is one at 95 %."""

    value: float
    claimed: bool


def verdict(tests: Sequence[Sure], says: Says) -> str:
    """Whether most tests surely agree, surely contradict, or neither."""
    up = sum(test.claimed and test.value > 0 for test in tests) > len(tests) / 2
    down = sum(test.claimed and test.value < 0 for test in tests) > len(tests) / 2
    match says:
        case "more":
            return HOLDS if up else FAILS if down else OPEN
        case "less":
            return HOLDS if down else FAILS if up else OPEN
        case "same":
            return FAILS if up or down else HOLDS
        case _:
            assert_never(says)
