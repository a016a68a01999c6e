"""Ensembles: maximum of probabilities, mean of log-probabilities, and greedy selection of members."""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bertvision.tasks.examples import FloatArray, IntArray

How = Literal["max", "mean", "greedy"]
"""How members are combined: element-wise maximum, mean, or weighted mean of members selected on held-out examples."""

Values = NDArray[np.float32]

MOST_STEPS = 50
"""Most steps of the greedy selection; each adds one member, maybe again."""


def token_log_probabilities(scores: Values, bounds: IntArray) -> Values:
    """Logarithm of the softmax over the tokens of each window, (tokens,).

    Args:
        scores: (tokens,) of windows end to end.
        bounds: (windows + 1,) where each begins and ends; none is empty.
    """
    begins, lengths = bounds[:-1], np.diff(bounds)
    shifted = scores.astype(np.float64) - np.repeat(np.maximum.reduceat(scores, begins), lengths)
    totals = np.add.reduceat(np.exp(shifted), begins)
    logarithms: Values = (shifted - np.repeat(np.log(totals), lengths)).astype(np.float32)
    return logarithms


def class_log_probabilities(rows: Values) -> Values:
    """Logarithm of the softmax over the classes of each row, (rows, classes)."""
    shifted = rows.astype(np.float64) - rows.max(axis=1, keepdims=True)
    logarithms: Values = (shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))).astype(np.float32)
    return logarithms


def largest(members: Sequence[Values]) -> Values:
    """The element-wise maximum; of logarithms, that of the probabilities."""
    joined: Values = np.maximum.reduce(list(members))
    return joined


def weighted_mean(members: Sequence[Values], weights: FloatArray) -> Values:
    """The element-wise weighted mean; the weights sum to 1."""
    joined = np.zeros(members[0].shape)
    for member, weight in zip(members, weights.tolist(), strict=True):
        if weight:
            joined += weight * member
    return joined.astype(np.float32)


def choose_greedily(members: int, score: Callable[[FloatArray], float]) -> tuple[FloatArray, list[float]]:
    """Greedy forward selection with repetition, until no member improves the score; of equal ones the first is taken.

    Args:
        members: number of candidates.
        score: score of the ensemble with the given weights, larger is better, on held-out examples.

    Returns:
        Weights, (members,), which sum to 1, and the score after every step.
    """
    counts = np.zeros(members)
    history: list[float] = []
    while len(history) < MOST_STEPS:
        tried = [score(_with(counts, member)) for member in range(members)]
        best = int(np.argmax(np.nan_to_num(tried, nan=-np.inf)))
        if history and not tried[best] > history[-1]:
            break
        counts[best] += 1
        history.append(tried[best])
    return counts / counts.sum(), history


def _with(counts: FloatArray, member: int) -> FloatArray:
    more = counts.copy()
    more[member] += 1
    weights: FloatArray = more / more.sum()
    return weights
