"""The tolerances of all tests, with their reasons; a new number needs a new name."""

from typing import cast

import pytest

EXACT = 0.0
"""Copies of the same numbers: stores, save and load, integer arithmetic."""

FLOAT64 = 1e-12
"""The same sum in another order, in double precision."""

MOMENTS = 1e-9
"""A variance or correlation from sums of squares, in double precision: differences of nearly equal numbers."""

FLOAT32 = 1e-5
"""The same sum in another order, in single precision."""

DEEP = 1e-3
"""Some sixty convolutions in single precision, each normalised by the batch itself, which enlarges small errors."""

NEAR_IDENTITY = 1e-3
"""States before and after fresh adapters, whose weights have a standard deviation of this size."""

HALF = 0.15
"""States of small random encoders in bfloat16, which keeps 8 bits: several layers of rounding errors of 1/256."""

HALF_HEAD = 0.05
"""Outputs of heads in bfloat16, as a share of the largest: about a dozen roundings of 1/256, one per step of a head."""

SOLVED = 2e-3
"""Linear maps that two solvers found, in single and in double precision, of inputs whose sizes differ a hundredfold."""

KEPT = 1e-3
"""States that were kept in float16, which has 11 bits: one rounding of at most 1/2048."""

FAST_TANH = 3e-3
"""States in float16, and a GPU's instruction for tanh, which is wrong by 1/2048 at most: all of it in one direction."""

KEPT_BF16 = 1e-2
"""States that were kept in float16 and widened to bfloat16, which has 8 bits: one more rounding of at most 1/256."""

KEPT_INT8 = 3e-2
"""States that were kept in int8: half a step of 1/127 of the token's largest standardised number, which is some 4."""


def about(value: float, tolerance: float = FLOAT64) -> float:
    """A number that equals those near it, to stand in a record that is compared as a whole."""
    return cast("float", pytest.approx(value, rel=tolerance))
