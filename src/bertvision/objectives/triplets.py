"""Vectors of triplets → loss: low where the anchor is near its positive and far from its negatives."""

from typing import Literal, assert_never

import torch
from torch import Tensor, nn

TripletLoss = Literal["document", "margin", "in-batch"]
"""The document's hinge on distances; a hinge with a margin for every negative; or multiple negatives of the batch."""

SCALE = 20.0
"""What cosines are multiplied with before a softmax over them."""


def euclidean(one: Tensor, two: Tensor) -> Tensor:
    """Distances of vectors, (…, width) → (…)."""
    distances: Tensor = torch.linalg.vector_norm(one - two, dim=-1)
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
        kind: which loss.
        anchor: (batch, width).
        positive: (batch, width) belongs near.
        negatives: (batch, negatives, width) belong far away.
        margin: how much farther than the positive a negative should be, for `margin`.
        alike: (batch, batch) True where the positive of the column is no negative of the row's anchor, for `in-batch`;
            None has none.
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
    """Cross-entropy, by cosine, of the positive among those of the whole batch and the negatives of its own triplet."""
    anchor, positive, negatives = (nn.functional.normalize(one, dim=-1) for one in (anchor, positive, negatives))
    others = anchor @ positive.T  # (batch, batch)
    if alike is not None:
        itself = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
        others = others.masked_fill(alike & ~itself, float("-inf"))
    own = torch.einsum("bw,bnw->bn", anchor, negatives)
    right = torch.arange(len(anchor), device=anchor.device)
    return nn.functional.cross_entropy(SCALE * torch.cat([others, own], dim=1), right, reduction="none")
