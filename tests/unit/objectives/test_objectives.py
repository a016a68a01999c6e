"""Losses worked out by hand."""

from math import exp, log

import pytest
import torch
from torch import Tensor

from bertvision.objectives import Pool, example_losses, pool_rows, span_losses
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Task
from close import EXACT, FLOAT32
from conftest import make_tags

SPANS, LABELS, SCORES = TASKS["squad2"], TASKS["sst2"], TASKS["stsb"]
TAGS = make_tags("a", "b")

OUTPUTS = torch.tensor([[[1.0, 2.0], [3.0, 5.0], [5.0, 2.0]], [[0.5, 4.0], [1.5, 8.0], [99.0, -99.0]]])
MASK = torch.tensor([[True, True, True], [True, True, False]])


def check(got: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(got, torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_the_first_row_or_the_mean_over_real_tokens_stands_for_a_text() -> None:
    assert pool_rows(OUTPUTS, MASK, "cls").tolist() == [[1.0, 2.0], [0.5, 4.0]]
    assert pool_rows(OUTPUTS, MASK, "mean").tolist() == [[3.0, 3.0], [1.0, 6.0]]


def test_other_axes_before_the_tokens_are_kept() -> None:
    layers = torch.stack([OUTPUTS, 10 * OUTPUTS], dim=1)  # (batch, layers, tokens, width)
    assert pool_rows(layers, MASK, "cls").tolist() == [[[1.0, 2.0], [10.0, 20.0]], [[0.5, 4.0], [5.0, 40.0]]]
    mean = pool_rows(layers, MASK, "mean")
    expected = torch.tensor([[[3.0, 3.0], [30.0, 30.0]], [[1.0, 6.0], [10.0, 60.0]]])
    torch.testing.assert_close(mean, expected, rtol=FLOAT32, atol=FLOAT32)
    more = pool_rows(layers[:, :, None], MASK, "mean")  # (batch, layers, 1, tokens, width)
    torch.testing.assert_close(more, expected[:, :, None], rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_a_row_that_is_pooled_already_stays_to_the_last_bit(pool: Pool) -> None:
    rows = torch.tensor([[[0.1, 0.7]], [[-0.3, 1 / 3]]])
    assert torch.equal(pool_rows(rows, torch.ones(2, 1, dtype=torch.bool), pool), rows[:, 0])


@pytest.mark.parametrize("tokens", [3, 301, 511])
def test_the_mean_of_ones_is_one_however_many_there_are(tokens: int) -> None:
    ones, mask = torch.ones(1, 2, tokens, 3), torch.ones(1, tokens, dtype=torch.bool)
    assert pool_rows(ones, mask, "mean").tolist() == [[[1.0] * 3] * 2]


def test_a_span_s_loss_is_the_mean_of_those_of_its_two_ends() -> None:
    first = log(exp(1) + exp(3) + exp(5)) - 5  # starts at token 2: three scores of the first column
    last = log(exp(2) + exp(5) + exp(2)) - 5  # ends at token 1
    short_first = log(exp(0.5) + exp(1.5)) - 0.5  # only two tokens are real
    short_last = log(exp(4) + exp(8)) - 8
    losses = span_losses(OUTPUTS, MASK, torch.tensor([[2, 1], [0, 1]]))
    check(losses, [(first + last) / 2, (short_first + short_last) / 2])
    check(losses, [0.118927, 0.665706])


def test_a_label_s_loss_is_the_cross_entropy_of_its_row() -> None:
    losses = example_losses(LABELS, OUTPUTS, MASK, torch.tensor([0, 1]), pool="cls")
    check(losses, [log(exp(1) + exp(2)) - 1, log(exp(0.5) + exp(4)) - 4])
    losses = example_losses(LABELS, OUTPUTS, MASK, torch.tensor([0, 1]), pool="mean")
    check(losses, [log(2), log(exp(1) + exp(6)) - 6])


def test_a_class_s_weight_multiplies_the_losses_of_its_examples() -> None:
    targets, weights = torch.tensor([0, 1]), torch.tensor([3.0, 0.5])
    losses = example_losses(LABELS, OUTPUTS, MASK, targets, pool="cls", class_weights=weights)
    check(losses, [3 * (log(exp(1) + exp(2)) - 1), 0.5 * (log(exp(0.5) + exp(4)) - 4)])


def test_the_loss_of_tags_is_the_mean_over_labels_of_yes_or_no() -> None:
    losses = example_losses(TAGS, OUTPUTS, MASK, torch.tensor([[1, 0], [0, 0]]), pool="cls")
    yes, no = log(1 + exp(-1)), log(1 + exp(2))  # outputs 1 and 2, of which the first is right
    check(losses, [(yes + no) / 2, (log(1 + exp(0.5)) + log(1 + exp(4))) / 2])
    check(example_losses(TAGS, OUTPUTS, MASK, torch.tensor([[1, 1], [1, 1]]), pool="mean")[:1], [log(1 + exp(-3))])


def test_a_score_s_loss_is_its_squared_error() -> None:
    outputs = OUTPUTS[:, :, :1]
    check(example_losses(SCORES, outputs, MASK, torch.tensor([3.5, 0.0]), pool="cls"), [6.25, 0.25])
    targets = torch.tensor([4.5, -1.0], dtype=torch.float64)  # as numpy gives them
    check(example_losses(SCORES, outputs, MASK, targets, pool="mean"), [2.25, 4.0])


@pytest.mark.parametrize(
    ("task", "targets"),
    [
        (SPANS, torch.tensor([[2, 1], [0, 1]])),
        (LABELS, torch.tensor([0, 1])),
        (TAGS, torch.tensor([[1, 0], [1, 1]])),
        (SCORES, torch.tensor([1.0, 2.0])),
    ],
)
@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_padding_changes_nothing(task: Task, targets: Tensor, pool: Pool) -> None:
    outputs = OUTPUTS[:, :, : task.outputs]
    expected = example_losses(task, outputs, MASK, targets, pool=pool)
    longer = torch.cat([outputs, torch.full((2, 4, task.outputs), 1e4)], dim=1)
    longer[1, 2] = -1e4
    mask = torch.cat([MASK, torch.zeros(2, 4, dtype=torch.bool)], dim=1)
    got = example_losses(task, longer, mask, targets, pool=pool)
    torch.testing.assert_close(got, expected, rtol=FLOAT32, atol=FLOAT32)
    alone = example_losses(task, outputs[1:, :2], MASK[1:, :2], targets[1:], pool=pool)
    torch.testing.assert_close(alone, expected[1:], rtol=FLOAT32, atol=FLOAT32)


def test_padding_gets_no_gradient() -> None:
    outputs = OUTPUTS.clone().requires_grad_()
    torch.autograd.backward(example_losses(SPANS, outputs, MASK, torch.tensor([[2, 1], [0, 1]]), pool="cls").sum())
    assert outputs.grad is not None
    assert outputs.grad[1, 2].tolist() == [0.0, 0.0]
    assert bool((outputs.grad[MASK] != 0).all())


def test_losses_are_summed_in_single_precision_whatever_the_outputs_are() -> None:
    halved = OUTPUTS.to(torch.bfloat16)  # these numbers are exact in bfloat16
    losses = example_losses(SPANS, halved, MASK, torch.tensor([[2, 1], [0, 1]]), pool="cls")
    assert losses.dtype == torch.float32
    expected = example_losses(SPANS, OUTPUTS, MASK, torch.tensor([[2, 1], [0, 1]]), pool="cls")
    torch.testing.assert_close(losses, expected, rtol=EXACT, atol=EXACT)
