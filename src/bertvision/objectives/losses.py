"""Outputs and targets → loss of every example, and the pooling of token rows that comes before it."""

from typing import assert_never

import torch
from torch import Tensor, nn

from bertvision.tasks.task import Pool, Task


def pool_rows(rows: Tensor, mask: Tensor, pool: Pool) -> Tensor:
    """Pool every example to one row: (batch, …, tokens, numbers), mask (batch, tokens) → (batch, …, numbers)."""
    if rows.shape[-2] == 1:  # pooled before
        return rows[..., 0, :]
    match pool:
        case "cls":
            return rows[..., 0, :]
        case "mean":
            # summed before it is divided: the rounding of 1 / tokens would lean one way for all numbers of a text
            sums = torch.einsum("b...to,bt->b...o", rows, mask.to(rows.dtype))
            return sums / mask.sum(dim=1).view(-1, *[1] * (rows.ndim - 2))
        case _:
            assert_never(pool)


def example_losses(  # noqa: PLR0913 - what a loss depends on
    task: Task, outputs: Tensor, mask: Tensor, targets: Tensor, *, pool: Pool, class_weights: Tensor | None = None
) -> Tensor:
    """The loss of every example, (batch,).

    Args:
        task: what is asked.
        outputs: (batch, tokens, outputs).
        mask: (batch, tokens) True where a token is real.
        targets: (batch, 2) first and last token; or (batch,) class numbers or scores; or (batch, labels) tags.
        pool: which row counts for labels, tags and scores.
        class_weights: (classes,) how much an example of each class counts, for labels.
    """
    outputs = outputs.float()
    match task.kind:
        case "spans":
            return span_losses(outputs, mask, targets)
        case "labels":
            rows = pool_rows(outputs, mask, pool)
            return nn.functional.cross_entropy(rows, targets, weight=class_weights, reduction="none")
        case "tags":
            rows = pool_rows(outputs, mask, pool)
            return nn.functional.binary_cross_entropy_with_logits(rows, targets.float(), reduction="none").mean(dim=1)
        case "scores":
            rows = pool_rows(outputs, mask, pool)
            return (rows[:, 0] - targets.float()) ** 2
        case _:
            assert_never(task.kind)


def span_losses(outputs: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
    """The mean of the cross-entropies of the first and the last token, over the window's tokens, (batch,)."""
    scores = outputs.masked_fill(~mask[:, :, None], float("-inf"))  # (batch, tokens, 2)
    first = nn.functional.cross_entropy(scores[:, :, 0], targets[:, 0], reduction="none")
    last = nn.functional.cross_entropy(scores[:, :, 1], targets[:, 1], reduction="none")
    return (first + last) / 2
