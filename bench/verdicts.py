"""verdict: whether a document's claim holds, does not hold, or is not shown, at a significance level of 5 %."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, assert_never

HOLDS, FAILS, OPEN = "holds", "does not hold", "not shown"
Says = Literal["more", "less", "same"]


class Sure(NamedTuple):
    """A difference, and whether it is statistically significant."""

    value: float
    claimed: bool


def verdict(tests: Sequence[Sure], says: Says) -> str:
    """Whether more than half of the tests are significant in the claimed direction, against it, or neither."""
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
