"""Ensembles: the maximum or the mean of members' log-probabilities, and a greedy choice of members."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertvision.tasks.examples import FloatArray, IntArray

How = Literal["max", "mean", "greedy"]
"""How members are joined: element-wise maximum, mean, or a weighted mean chosen greedily on held-out examples."""

Values = NDArray[np.float32]

MOST_STEPS = 50
"""Largest number of steps of a greedy choice; each adds one member, also repeatedly."""


def token_log_probabilities(scores: Values, bounds: IntArray) -> Values:
    """Log-softmax over the tokens of each window, (tokens,).

    Args:
        scores: (tokens,) of concatenated windows.
        bounds: (windows + 1,) where each window begins, and the end; no window is empty.
    """
    begins, lengths = bounds[:-1], np.diff(bounds)
    shifted = scores.astype(np.float64) - np.repeat(np.maximum.reduceat(scores, begins), lengths)
    totals = np.add.reduceat(np.exp(shifted), begins)
    logarithms: Values = (shifted - np.repeat(np.log(totals), lengths)).astype(np.float32)
    return logarithms


def class_log_probabilities(rows: Values) -> Values:
    """Log-softmax over the classes of each row, (rows, classes)."""
    shifted = rows.astype(np.float64) - rows.max(axis=1, keepdims=True)
    logarithms: Values = (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).astype(np.float32)
    return logarithms


def largest(members: Sequence[Values]) -> Values:
    """The element-wise maximum."""
    joined: Values = np.maximum.reduce(list(members))
    return joined


def weighted_mean(members: Sequence[Values], weights: FloatArray) -> Values:
    """The element-wise weighted mean, with weights that add up to 1."""
    joined = np.zeros(members[0].shape)
    for member, weight in zip(members, weights.tolist(), strict=True):
        if weight:
            joined += weight * member
    return joined.astype(np.float32)


def choose_greedily(members: int, score: Callable[[FloatArray], float]) -> tuple[FloatArray, list[float]]:
    """Greedy ensemble selection: add the member that raises the score most, also repeatedly, until none raises it.

    Of members that raise it equally, the first is taken.

    Args:
        members: number of members to choose from.
        score: score of the ensemble with given weights, the larger the better; on held-out examples, not on those that
            the ensemble is evaluated on.

    Returns:
        Weights that add up to 1, and the score after every step.
    """
    counts = np.zeros(members)
    history: list[float] = []
    while len(history) < MOST_STEPS:
        scores = [score(_weights_with(counts, member)) for member in range(members)]
        best = int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))
        if history and not scores[best] > history[-1]:
            break
        counts[best] += 1
        history.append(scores[best])
    return counts / counts.sum(), history


def _weights_with(counts: FloatArray, member: int) -> FloatArray:
    """The weights after one more of `member`."""
    more = counts.copy()
    more[member] += 1
    weights: FloatArray = more / more.sum()
    return weights
