"""Triplet losses: low where the anchor is near its positive and far from its negatives."""

from typing import Literal, assert_never

import torch
from torch import Tensor, nn

TripletLoss = Literal["document", "margin", "in-batch"]
"""Document 004's hinge; a hinge with a margin for every negative; or the multiple negatives ranking loss."""

SCALE = 20.0
"""Factor of the cosine similarities in the softmax of `in-batch` (inverse temperature)."""


def euclidean(first: Tensor, second: Tensor) -> Tensor:
    """Euclidean distances of vectors, (…, width) → (…)."""
    distances: Tensor = torch.linalg.vector_norm(first - second, dim=-1)
    return distances


def triplet_losses(  # noqa: PLR0913 - what the three losses depend on
    kind: TripletLoss,
    anchor: Tensor,
    positive: Tensor,
    negatives: Tensor,
    *,
    margin: float = 1.0,
    alike: Tensor | None = None,
) -> Tensor:
    """The loss of every triplet, (batch,).

    Args:
        kind: `document`: relu(d(anchor, positive) - logsumexp of d(anchor, negatives)); `margin`: mean over the
            negatives of relu(d(anchor, positive) - d(anchor, negative) + margin); `in-batch`: cross-entropy of the own
            positive among all positives of the batch and the own negatives, by cosine similarity.
        anchor: (batch, width).
        positive: (batch, width).
        negatives: (batch, negatives, width).
        margin: for `margin`.
        alike: (batch, batch) for `in-batch`: True where the column's positive must not serve as a negative of the row's
            anchor, because it is alike; None if all others serve.
    """
    match kind:
        case "document":
            far = torch.logsumexp(euclidean(anchor[:, None], negatives), dim=1)
            return nn.functional.relu(euclidean(anchor, positive) - far)
        case "margin":
            far = euclidean(anchor[:, None], negatives)  # (batch, negatives)
            near = euclidean(anchor, positive)[:, None]
            return nn.functional.relu(near - far + margin).mean(dim=1)
        case "in-batch":
            return _in_batch_losses(anchor, positive, negatives, alike)
        case _:
            assert_never(kind)


def _in_batch_losses(anchor: Tensor, positive: Tensor, negatives: Tensor, alike: Tensor | None) -> Tensor:
    """Multiple negatives ranking loss: the correct class of row i is column i, its own positive."""
    anchor, positive, negatives = (nn.functional.normalize(each, dim=-1) for each in (anchor, positive, negatives))
    positives = anchor @ positive.T  # (batch, batch) cosine similarities
    if alike is not None:
        own = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
        positives = positives.masked_fill(alike & ~own, float("-inf"))
    hard = torch.einsum("bw,bnw->bn", anchor, negatives)
    targets = torch.arange(len(anchor), device=anchor.device)
    return nn.functional.cross_entropy(SCALE * torch.cat([positives, hard], dim=1), targets, reduction="none")
