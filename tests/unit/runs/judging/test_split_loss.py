"""The loss of a split, worked out by hand, and held against the one that training computes."""

from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.evaluation.outputs import SpanScores
from bertvision.objectives import span_losses
from bertvision.runs.judging.split_loss import split_loss
from bertvision.tasks.examples import Texts
from bertvision.tasks.load import TASKS
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows
from close import FLOAT32
from conftest import make_tags

SPANS = TASKS["squad2"]


def windows(bounds: list[int], targets: Any) -> Windows:  # noqa: ANN401 - whatever a task has
    """Windows of which only bounds and targets matter."""
    nothing = np.zeros(len(bounds) - 1, dtype=np.int64)
    return Windows(
        ids=np.zeros(bounds[-1], dtype=np.int32),
        types=np.zeros(bounds[-1], dtype=np.uint8),
        bounds=np.array(bounds),
        example=nothing,
        targets=np.array(targets),
        context=np.stack([nothing, nothing], axis=1),
        context_token=nothing,
        offsets=np.zeros((0, 2), dtype=np.int32),
        truncated=0,
    )


def rows_loss(task: Task, targets: Any, rows: list[list[float]]) -> float:  # noqa: ANN401 - whatever a task has
    texts = ["a"] * len(rows)
    examples = Texts(ids=[str(number) for number in range(len(rows))], texts=texts, pairs=None, targets=targets)
    part = Part(examples=examples, windows=windows([0, 1], [0]))  # which rows do not need
    return split_loss(task, part, np.array(rows, dtype=np.float32))


def spans_loss(bounds: list[int], targets: list[list[int]], starts: list[float], ends: list[float]) -> float:
    examples = Texts(ids=[], texts=[], pairs=None, targets=np.zeros(0))  # which windows do not need
    scores = SpanScores(np.array(starts, dtype=np.float32), np.array(ends, dtype=np.float32))
    return split_loss(SPANS, Part(examples=examples, windows=windows(bounds, targets)), scores)


def test_of_questions_it_is_the_mean_over_windows_of_those_of_first_and_last_token() -> None:
    # a window of two tokens whose answer is the second, and one of three without an answer
    starts, ends = [log(1), log(3), log(2), log(1), log(1)], [log(1), log(1), log(1), log(3), log(4)]
    first = (-log(3 / 4) - log(1 / 2)) / 2
    second = (-log(2 / 4) - log(1 / 8)) / 2
    found = spans_loss([0, 2, 5], [[1, 1], [0, 0]], starts, ends)
    assert found == pytest.approx((first + second) / 2, rel=FLOAT32)
    assert found == pytest.approx(0.938353, rel=FLOAT32)


def test_of_questions_it_is_that_of_training_however_long_windows_are() -> None:
    rng = np.random.default_rng(0)
    lengths = [3, 9, 1, 6]
    bounds = [0, *np.cumsum(lengths).tolist()]
    scores = rng.normal(scale=20, size=(bounds[-1], 2)).astype(np.float32)
    targets = [[int(rng.integers(length)), int(rng.integers(length))] for length in lengths]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    padded = torch.full((len(lengths), max(lengths), 2), 99.0)
    padded[mask] = torch.from_numpy(scores)
    expected = float(span_losses(padded, mask, torch.tensor(targets)).mean())
    found = spans_loss(bounds, targets, scores[:, 0].tolist(), scores[:, 1].tolist())
    assert found == pytest.approx(expected, rel=FLOAT32)


def test_of_labels_it_is_the_mean_cross_entropy() -> None:
    found = rows_loss(TASKS["sst2"], np.array([0, 1]), [[1.0, 2.0], [0.5, 4.0]])
    assert found == pytest.approx((log(1 + exp(1)) + log(1 + exp(-3.5))) / 2, rel=FLOAT32)


def test_of_scores_it_is_the_mean_squared_error() -> None:
    assert rows_loss(TASKS["stsb"], np.array([3.5, 0.0]), [[1.0], [0.5]]) == pytest.approx(3.25, rel=FLOAT32)


def test_of_tags_it_is_the_mean_over_texts_and_labels() -> None:
    found = rows_loss(make_tags("a", "b"), np.array([[1, 0], [0, 0]]), [[1.0, 2.0], [0.0, 0.0]])
    assert found == pytest.approx((log(1 + exp(-1)) + log(1 + exp(2)) + 2 * log(2)) / 4, rel=FLOAT32)
