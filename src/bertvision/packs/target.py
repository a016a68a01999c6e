"""Target: the outputs of a head that a prediction is made of, to be attributed to layers."""

from dataclasses import dataclass

import numpy as np

from bertvision.evaluation.outputs import SpanScores
from bertvision.tasks.windows import Windows


@dataclass(frozen=True, slots=True)
class Target:
    """Outputs of one window whose sum is explained.

    Attributes:
        window: index of the window.
        places: (token, output) of each; the token is 0 where a window has one row of outputs.
    """

    window: int
    places: tuple[tuple[int, int], ...]


def span_target(windows: Windows, scores: SpanScores, span: tuple[int, int] | None) -> Target:
    """The start score of an answer's first token and the end score of its last, in the window that scores it highest.

    Args:
        windows: windows of one question.
        scores: scores of a head.
        span: characters of the answer as decoded, not widened to words; None for "no answer": both scores of the first
            token, in the window where their sum is smallest, since that window decides.

    Raises:
        ValueError: no window contains the span.
    """
    first_tokens = windows.bounds[:-1]
    if span is None:
        null = scores.start[first_tokens] + scores.end[first_tokens]
        return Target(int(null.argmin()), ((0, 0), (0, 1)))
    best, found = -np.inf, None
    for window, ((begin, end), row) in enumerate(zip(windows.context.tolist(), windows.context_token, strict=True)):
        offsets = windows.offsets[row : row + end - begin]
        if not len(offsets) or span[0] < offsets[0, 0] or span[1] > offsets[-1, 1]:
            continue
        first = begin + int(np.flatnonzero(offsets[:, 1] > span[0])[0])
        last = begin + int(np.flatnonzero(offsets[:, 0] < span[1])[-1])
        score = scores.start[first_tokens[window] + first] + scores.end[first_tokens[window] + last]
        if score > best:
            best, found = score, Target(window, ((first, 0), (last, 1)))
    if found is None:
        raise ValueError(f"no window holds the characters {span[0]} to {span[1]}")
    return found
