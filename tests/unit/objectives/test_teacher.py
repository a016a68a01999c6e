"""Losses by a teacher, worked out by hand."""

from math import inf, log

import pytest
import torch
from torch import Tensor

from bertvision.objectives.teacher import teacher_losses
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Task
from close import FLOAT32
from conftest import make_tags

SPANS, LABELS, SCORES = TASKS["squad2"], TASKS["sst2"], TASKS["stsb"]
MASK = torch.tensor([[True, True, True], [True, True, False]])
ZEROS = torch.zeros(2, 3, 2)
THIRDS = 1 / 4 * log(3 / 4) + 3 / 4 * log(9 / 4)
"""Of 1/4 and 3/4 from three times 1/3."""
HALVES = 1 / 4 * log(1 / 2) + 3 / 4 * log(3 / 2)
"""Of 1/4 and 3/4 from twice 1/2."""


def losses(task: Task, outputs: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    return teacher_losses(task, outputs, MASK, teacher, pool="cls", temperature=temperature)


def check(got: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(got, torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def span_teacher(temperature: float) -> Tensor:
    """Of the first window, a first token of 1/4 and 3/4 and a last token that is the first for sure; of the second, 1/4
    and 3/4 for both.
    """
    three = temperature * log(3)
    first = torch.tensor([[0.0, 0.0], [three, -inf], [-inf, -inf]])
    second = torch.tensor([[0.0, 0.0], [three, three], [-inf, -inf]])
    return torch.stack([first, second])


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_span_s_loss_is_the_mean_divergence_of_its_two_ends(temperature: float) -> None:
    got = losses(SPANS, ZEROS, span_teacher(temperature), temperature)
    squared = temperature**2
    check(got, [squared * (THIRDS + log(3)) / 2, squared * HALVES])  # the second window has two tokens
    check(got / squared, [0.817445, 0.130812])


def test_padding_moves_nothing_and_gradients_are_as_large_at_any_temperature() -> None:
    outputs = torch.tensor([[[0.0, 0.0]] * 3, [[0.0, 0.0], [0.0, 0.0], [99.0, -99.0]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(losses(SPANS, outputs, span_teacher(2.0), 2.0).sum(), outputs)
    # T (q - p) / 2: of the first window q is 1/3, of the second 1/2
    check(gradient[0, :, 0], [1 / 3 - 1 / 4, 1 / 3 - 3 / 4, 1 / 3])
    check(gradient[1, :, 0], [1 / 2 - 1 / 4, 1 / 2 - 3 / 4, 0.0])


def test_a_student_that_says_the_same_has_no_loss() -> None:
    outputs = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(0))
    teacher = outputs.masked_fill(~MASK[:, :, None], -inf) + 7.0
    check(losses(SPANS, outputs, teacher, 3.0), [0.0, 0.0])
    check(losses(LABELS, outputs, outputs[:, 0] - 5.0, 3.0), [0.0, 0.0])


def test_losses_are_computed_in_single_precision_whatever_the_outputs_are() -> None:
    outputs = torch.tensor([[[0.0, 1.0]] * 3] * 2)  # these numbers are exact in bfloat16, their losses are not
    teacher = torch.tensor([[0.3, -0.2], [1.7, 0.4]])
    halved = losses(LABELS, outputs.to(torch.bfloat16), teacher)
    assert halved.dtype == torch.float32
    assert torch.equal(halved, losses(LABELS, outputs, teacher))


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_label_s_loss_is_the_divergence_over_classes(temperature: float) -> None:
    teacher = torch.tensor([[0.0, log(3)], [0.0, 0.0]]) * temperature
    check(losses(LABELS, ZEROS, teacher, temperature), [temperature**2 * HALVES, 0.0])


def test_tags_have_the_cross_entropy_with_the_teacher_s_probabilities() -> None:
    outputs = torch.tensor([[[0.0, log(3)]] * 3] * 2)
    teacher = torch.tensor([[log(3), log(3)], [-99.0, 99.0]])
    entropy = -3 / 4 * log(3 / 4) - 1 / 4 * log(1 / 4)
    check(losses(make_tags("a", "b"), outputs, teacher), [(log(2) + entropy) / 2, (log(2) - log(3 / 4)) / 2])
    check(losses(make_tags("a", "b"), 2 * outputs, 2 * teacher, 2.0)[:1], [4 * (log(2) + entropy) / 2])


def test_scores_have_the_squared_difference_at_any_temperature() -> None:
    check(losses(SCORES, ZEROS[:, :, :1] + 2.0, torch.tensor([[5.0], [1.5]]), 3.0), [9.0, 0.25])
