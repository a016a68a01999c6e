"""Outcomes: one number per example of a split, as a line of text in a record, for paired tests of any two models."""

from collections.abc import Sequence

import numpy as np

from bertvision.tasks.examples import FloatArray, IntArray


def pack_outcomes(values: Sequence[float] | FloatArray | IntArray) -> str:
    """Write numbers as a line: scores of questions from 0 to 1, class numbers or scores of texts; three decimals.

    >>> pack_outcomes([1.0, 2 / 3, 0.0])
    '1 0.667 0'
    """
    return " ".join(f"{value:.3f}".rstrip("0").rstrip(".") for value in np.asarray(values, dtype=np.float64).tolist())


def unpack_outcomes(line: str) -> FloatArray:
    """The numbers of a line, (examples,)."""
    return np.array([float(word) for word in line.split()])
