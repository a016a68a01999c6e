"""Which tokens an answer stands on, in which window; what heads take from layers is in the tests of the server."""

import numpy as np
import pytest

from bertvision.evaluation.outputs import SpanScores
from bertvision.packs.target import Target, span_target
from bertvision.tasks.windows import Windows

OFFSETS = [(0, 2), (3, 5), (6, 8), (9, 11)]
"""Characters of a context of four tokens; each window begins with a special token and has two or three of them."""


def windows() -> Windows:
    return Windows(
        ids=np.zeros(7, dtype=np.int32),
        types=np.zeros(7, dtype=np.uint8),
        bounds=np.array([0, 4, 7]),
        example=np.array([0, 0]),
        targets=np.zeros((2, 2), dtype=np.int64),
        context=np.array([[1, 4], [1, 3]]),
        context_token=np.array([0, 2]),
        offsets=np.array(OFFSETS, dtype=np.int32),
        truncated=0,
    )


def scores(start: list[float], end: list[float]) -> SpanScores:
    return SpanScores(np.array(start, dtype=np.float32), np.array(end, dtype=np.float32))


ZEROS = [0.0] * 7


def test_an_answer_stands_on_its_first_and_last_token() -> None:
    assert span_target(windows(), scores(ZEROS, ZEROS), (3, 8)) == Target(0, ((2, 0), (3, 1)))
    assert span_target(windows(), scores(ZEROS, ZEROS), (6, 11)) == Target(1, ((1, 0), (2, 1)))


def test_of_two_windows_with_an_answer_the_one_that_scores_it_higher_counts() -> None:
    higher = scores([0, 0, 0, 1, 0, 5, 0], ZEROS)  # token 3 of the first window is token 1 of the second
    assert span_target(windows(), higher, (6, 8)) == Target(1, ((1, 0), (1, 1)))
    lower = scores([0, 0, 0, 7, 0, 5, 0], ZEROS)
    assert span_target(windows(), lower, (6, 8)) == Target(0, ((3, 0), (3, 1)))


def test_no_answer_stands_on_the_first_token_of_the_window_that_believes_in_it_least() -> None:
    silence = scores([3, 9, 9, 9, 1, 0, 0], [0, 0, 0, 0, 1, 0, 0])
    assert span_target(windows(), silence, None) == Target(1, ((0, 0), (0, 1)))


def test_characters_that_no_window_holds_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="no window holds the characters 0 to 11"):
        span_target(windows(), scores(ZEROS, ZEROS), (0, 11))
