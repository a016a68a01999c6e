"""The loss of every example by its targets, and the pooling over tokens that precedes it."""

from typing import assert_never

import torch
from torch import Tensor, nn

from bertvision.tasks.task import Pool, Task


def pool_rows(rows: Tensor, mask: Tensor, pool: Pool) -> Tensor:
    """Pool over the tokens: the first token, or the mean over the real ones.

    Args:
        rows: (batch, …, tokens, numbers); if there is one token, they are pooled already.
        mask: (batch, tokens) True where a token is real.
        pool: `cls` or `mean`.

    Returns:
        (batch, …, numbers).
    """
    if rows.shape[-2] == 1:
        return rows[..., 0, :]
    match pool:
        case "cls":
            return rows[..., 0, :]
        case "mean":
            # sum, then divide: rounding 1 / tokens first would bias all numbers of a text in the same direction
            sums = torch.einsum("b...to,bt->b...o", rows, mask.to(rows.dtype))
            return sums / mask.sum(dim=1).view(-1, *[1] * (rows.ndim - 2))
        case _:
            assert_never(pool)


def example_losses(  # noqa: PLR0913 - what a loss depends on
    task: Task, outputs: Tensor, mask: Tensor, targets: Tensor, *, pool: Pool, class_weights: Tensor | None = None
) -> Tensor:
    """The loss of every example, (batch,).

    Args:
        task: its kind chooses the loss: cross-entropy for spans and labels, binary cross-entropy for tags, squared
            error for scores.
        outputs: (batch, tokens, outputs) of a head.
        mask: (batch, tokens) True where a token is real.
        targets: (batch, 2) first and last token of spans; (batch,) class numbers or scores; (batch, labels) tags.
        pool: how outputs are pooled over the tokens, for labels, tags and scores.
        class_weights: (classes,) factor of the loss of each class's examples, for labels.
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
    """Mean of the cross-entropies of start and end, each a softmax over the tokens of the window, (batch,).

    Args:
        outputs: (batch, tokens, 2) start and end logits.
        mask: (batch, tokens) True where a token is real.
        targets: (batch, 2) first and last token.
    """
    logits = outputs.masked_fill(~mask[:, :, None], float("-inf"))
    first = nn.functional.cross_entropy(logits[:, :, 0], targets[:, 0], reduction="none")
    last = nn.functional.cross_entropy(logits[:, :, 1], targets[:, 1], reduction="none")
    return (first + last) / 2
