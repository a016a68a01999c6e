"""The losses of triplets, worked out by hand in the plane."""

import math

import pytest
import torch
from torch import Tensor

from bertvision.objectives.triplets import euclidean, triplet_losses
from close import FLOAT32


def plane(*points: tuple[float, float]) -> Tensor:
    return torch.tensor(points, dtype=torch.float32)


ANCHOR = plane((0, 0), (0, 0))
POSITIVE = plane((3, 4), (0, 1))  # 5 and 1 away
NEGATIVES = torch.stack([plane((1, 0), (0, 2)), plane((6, 8), (0, 3))])  # 1 and 2; 10 and 3 away


def test_distances_are_euclidean() -> None:
    assert euclidean(ANCHOR, POSITIVE).tolist() == [5.0, 1.0]
    corners = torch.tensor([[[1.0, 1.0, 2.0], [4.0, 5.0, 2.0]]])  # (batch, points, width), not seen from the origin
    assert euclidean(torch.tensor([[[1.0, 1.0, 2.0]]]), corners).tolist() == [[0.0, 5.0]]


def test_the_loss_of_the_document_is_a_hinge_on_the_positive_less_all_negatives_together() -> None:
    found = triplet_losses("document", ANCHOR, POSITIVE, NEGATIVES)
    # 5 - log(e¹ + e²) = 5 - 2.3132617; 1 - log(e¹⁰ + e³) is below 0
    assert found.tolist() == pytest.approx([2.6867383, 0.0], abs=FLOAT32)


def test_the_margin_is_asked_of_every_negative() -> None:
    found = triplet_losses("margin", ANCHOR, POSITIVE, NEGATIVES, margin=1.5)
    # ((5 - 1 + 1.5) + (5 - 2 + 1.5)) / 2; and 1 - 10 and 1 - 3 + 1.5 are below 0
    assert found.tolist() == pytest.approx([5.0, 0.0], abs=FLOAT32)


def test_the_margin_is_one_unless_it_is_given() -> None:
    default = triplet_losses("margin", ANCHOR, POSITIVE, NEGATIVES)
    assert default.tolist() == pytest.approx([4.5, 0.0], abs=FLOAT32)  # ((5 - 1 + 1) + (5 - 2 + 1)) / 2


def test_in_a_batch_cosines_are_taken_over_the_width() -> None:
    # as wide as three, since a cosine over another axis of the same size would go unnoticed
    anchor, positive = torch.tensor([[3.0, 4.0, 0.0]]), torch.tensor([[0.0, 2.0, 0.0]])
    negatives = torch.tensor([[[0.0, 0.0, 5.0], [6.0, 8.0, 0.0]]])
    found = triplet_losses("in-batch", anchor, positive, negatives)
    # cosines: of the positive 0.8, of the negatives 0 and 1; each times 20
    assert found.tolist() == pytest.approx([math.log(math.exp(16) + 1 + math.exp(20)) - 16], abs=FLOAT32)


def test_in_a_batch_the_positives_of_others_are_negatives_too() -> None:
    anchor = plane((1, 0), (0, 2))
    positive = plane((2, 0), (0.6, 0.8))
    negatives = plane((0, 1), (-1, 0))[:, None]
    found = triplet_losses("in-batch", anchor, positive, negatives)
    # cosines: of the first 1 (itself), 0.6 and 0; of the second 0, 0.8 (itself) and 0; each times 20
    first = math.log(math.exp(20) + math.exp(12) + 1) - 20
    second = math.log(1 + math.exp(16) + 1) - 16
    assert found.tolist() == pytest.approx([first, second], abs=FLOAT32)


def test_in_a_batch_what_is_alike_is_no_negative_but_the_positive_always_counts() -> None:
    anchor = plane((1, 0), (1, 0))
    positive = plane((1, 0), (1, 0))
    negatives = plane((0, 1), (0, 1))[:, None]
    everything = torch.ones(2, 2, dtype=torch.bool)
    found = triplet_losses("in-batch", anchor, positive, negatives, alike=everything)
    assert found.tolist() == pytest.approx([math.log1p(math.exp(-20))] * 2, abs=FLOAT32)
    assert triplet_losses("in-batch", anchor, positive, negatives).tolist() == pytest.approx(
        [math.log(2)] * 2, abs=FLOAT32
    )


@pytest.mark.parametrize("kind", ["document", "margin", "in-batch"])
def test_texts_in_one_point_have_a_gradient_that_is_finite(kind: str) -> None:
    anchor = torch.zeros(2, 3, requires_grad=True)
    loss = triplet_losses(kind, anchor, torch.zeros(2, 3), torch.zeros(2, 4, 3))  # type: ignore[arg-type]  # all there are
    torch.autograd.backward(loss.sum())
    assert anchor.grad is not None
    assert anchor.grad.isfinite().all()
