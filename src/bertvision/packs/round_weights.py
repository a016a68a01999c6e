"""round_weights: weights → whole numbers of 8 bits, so that their products with real states stay what they were."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

LARGEST = 127
"""Largest of the whole numbers, of either sign."""

DAMP = 0.01
"""Added to the mean square of every column, as a share of their mean: samples must not be trusted in full."""

BLOCK = 128
"""Rows whose errors are handed on together."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """Weights in 8 bits.

    Attributes:
        whole: the rounded weights, (columns of the states, outputs).
        scale: factors that give back the weights, (outputs,).
    """

    whole: NDArray[np.int8]
    scale: Floats


def round_weights(weight: Floats, moments: NDArray[np.floating[Any]]) -> Rounded:
    """Round row by row, and let the rows that are left make up for the error, as GPTQ does.

    Args:
        weight: weights, (columns of the states, outputs).
        moments: mean products of every two columns of the states, (columns, columns).
    """
    scale = np.maximum(np.abs(weight).max(axis=0) / LARGEST, np.finfo(np.float32).tiny)
    damped = moments.astype(np.float64)
    damped[np.diag_indices_from(damped)] += max(DAMP * float(np.diag(moments).mean()), 1e-12)
    order = np.argsort(-np.diag(damped), kind="stable")  # the widest first: the others can make up for them
    inverse = np.linalg.inv(damped[np.ix_(order, order)])
    spread = np.linalg.cholesky(inverse).T.astype(np.float32)  # row by row: where the error of one goes
    left = weight[order] / scale
    whole = np.empty_like(left)
    for begin in range(0, len(left), BLOCK):
        block = slice(begin, begin + BLOCK)
        errors = np.empty_like(left[block])
        for row in range(begin, min(begin + BLOCK, len(left))):
            whole[row] = np.clip(np.rint(left[row]), -LARGEST, LARGEST)
            error = (left[row] - whole[row]) / spread[row, row]
            left[row + 1 : begin + BLOCK] -= spread[row, row + 1 : begin + BLOCK, None] * error
            errors[row - begin] = error
        left[begin + BLOCK :] -= spread[block, begin + BLOCK :].T @ errors
    rounded = np.empty(whole.shape, dtype=np.int8)
    rounded[order] = whole
    return Rounded(rounded, scale.astype(np.float32))
