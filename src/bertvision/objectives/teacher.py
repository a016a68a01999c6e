"""A student's and its teacher's outputs → loss of every example (knowledge distillation)."""

from typing import assert_never

import torch
from torch import Tensor, nn

from bertvision.objectives.losses import pool_rows
from bertvision.tasks.task import Pool, Task


def teacher_losses(  # noqa: PLR0913 - what a loss depends on
    task: Task, outputs: Tensor, mask: Tensor, teacher: Tensor, *, pool: Pool, temperature: float
) -> Tensor:
    """How far every example is from the teacher, (batch,).

    Spans and labels: T² times the divergence of the student's softmax from the teacher's, both of outputs divided by
    the temperature T; of spans, the mean over first and last tokens. Tags: T² times the cross-entropy with the
    teacher's probabilities. Scores: the squared difference.

    Args:
        task: what is asked.
        outputs: (batch, tokens, outputs) of the student.
        mask: (batch, tokens) True where a token is real.
        teacher: (batch, tokens, 2) its scores, -inf where it has none, the first token's finite; or (batch, outputs).
        pool: which row counts for labels, tags and scores.
        temperature: softens both distributions; T² keeps gradients as large as they are without it.
    """
    outputs = outputs.float()
    squared = temperature**2
    match task.kind:
        case "spans":
            real = mask[:, :, None]
            logs = (outputs.masked_fill(~real, float("-inf")) / temperature).log_softmax(dim=1)
            logs = logs.masked_fill(~real, 0.0)  # else 0 times an infinite logarithm
            return squared * _divergence(teacher / temperature, logs).mean(dim=1)
        case "labels":
            logs = (pool_rows(outputs, mask, pool) / temperature).log_softmax(dim=1)
            return squared * _divergence(teacher / temperature, logs)
        case "tags":
            rows = pool_rows(outputs, mask, pool) / temperature
            likely = (teacher / temperature).sigmoid()
            losses = nn.functional.binary_cross_entropy_with_logits(rows, likely, reduction="none")
            return squared * losses.mean(dim=1)
        case "scores":
            return (pool_rows(outputs, mask, pool)[:, 0] - teacher[:, 0]) ** 2
        case _:
            assert_never(task.kind)


def _divergence(teacher: Tensor, logs: Tensor) -> Tensor:
    """Σ p (log p - log q) over dimension 1, where p is the teacher's softmax and `logs` holds log q."""
    likely = teacher.softmax(dim=1)
    return (torch.xlogy(likely, likely) - likely * logs).sum(dim=1)
