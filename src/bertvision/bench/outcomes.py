"""A number of every example of a split, as one line of a record: enough for a paired test of any two models."""

from collections.abc import Sequence

import numpy as np

from bertvision.tasks.examples import FloatArray, IntArray


def pack_outcomes(values: Sequence[float] | FloatArray | IntArray) -> str:
    """Scores from 0 to 1, class numbers or scores of texts, with three places, which are enough for a test.

    >>> pack_outcomes([1.0, 2 / 3, 0.0])
    '1 0.667 0'
    """
    return " ".join(f"{value:.3f}".rstrip("0").rstrip(".") for value in np.asarray(values, dtype=np.float64).tolist())


def unpack_outcomes(line: str) -> FloatArray:
    """The numbers of a line."""
    return np.array([float(word) for word in line.split()])
