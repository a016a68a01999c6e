"""round_weights: weights → 8-bit integers whose products with real states change little (GPTQ)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

LARGEST = 127
"""Largest magnitude of the integers."""

DAMP = 0.01
"""Damping: added to the mean square of every column, as a share of their mean, since they are only estimates."""

BLOCK = 128
"""Rows in a block; the errors of a block are passed on to the later blocks in one product."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """Weights in 8 bits: approximately `integers * scale`.

    Attributes:
        integers: the rounded weights, (columns of the states, outputs).
        scale: one factor per output, (outputs,).
    """

    integers: NDArray[np.int8]
    scale: Floats


def round_weights(weight: Floats, moments: NDArray[np.floating[Any]]) -> Rounded:
    """Round row by row, each time adjusting the rows that are left so that they compensate the error, as GPTQ does.

    Args:
        weight: weights, (columns of the states, outputs).
        moments: mean products of every two columns of the states, (columns, columns): GPTQ's Hessian up to a factor.
    """
    scale = np.maximum(np.abs(weight).max(axis=0) / LARGEST, np.finfo(np.float32).tiny)
    damped = moments.astype(np.float64)
    damped[np.diag_indices_from(damped)] += max(DAMP * float(np.diag(moments).mean()), 1e-12)
    order = np.argsort(-np.diag(damped), kind="stable")  # the widest first, while many rows are left to compensate
    inverse = np.linalg.inv(damped[np.ix_(order, order)])
    spread = np.linalg.cholesky(inverse).T.astype(np.float32)  # row r: how its error is spread
    left = weight[order] / scale
    integers = np.empty_like(left)
    for begin in range(0, len(left), BLOCK):
        block = slice(begin, begin + BLOCK)
        errors = np.empty_like(left[block])
        for row in range(begin, min(begin + BLOCK, len(left))):
            integers[row] = np.clip(np.rint(left[row]), -LARGEST, LARGEST)
            error = (left[row] - integers[row]) / spread[row, row]
            left[row + 1 : begin + BLOCK] -= spread[row, row + 1 : begin + BLOCK, None] * error
            errors[row - begin] = error
        left[begin + BLOCK :] -= spread[block, begin + BLOCK :].T @ errors
    rounded = np.empty(integers.shape, dtype=np.int8)
    rounded[order] = integers
    return Rounded(rounded, scale.astype(np.float32))
