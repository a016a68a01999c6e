"""Knowledge distillation: the loss of every example by a teacher's outputs."""

from typing import assert_never

from torch import Tensor, nn

from bertvision.objectives.losses import pool_rows
from bertvision.tasks.task import Pool, Task


def teacher_losses(  # noqa: PLR0913 - what a loss depends on
    task: Task, outputs: Tensor, mask: Tensor, teacher: Tensor, *, pool: Pool, temperature: float
) -> Tensor:
    """The distillation loss of every example, (batch,).

    Spans and labels: T² · KL(teacher ‖ student), with both softmaxes at temperature T; for spans, the mean over start
    and end. Tags: T² times the binary cross-entropy with the teacher's probabilities at temperature T. Scores: the
    squared difference.

    Args:
        task: its kind chooses the loss.
        outputs: (batch, tokens, outputs) of the student.
        mask: (batch, tokens) True where a token is real.
        teacher: the teacher's logits: for spans (batch, tokens, 2), -inf where it has none, but finite at the first
            token; otherwise (batch, outputs), pooled.
        pool: how the student's outputs are pooled over the tokens, for labels, tags and scores.
        temperature: T; the factor T² keeps the size of the gradients.
    """
    outputs = outputs.float()
    squared = temperature**2
    match task.kind:
        case "spans":
            real = mask[:, :, None]
            log_student = (outputs.masked_fill(~real, float("-inf")) / temperature).log_softmax(dim=1)
            log_student = log_student.masked_fill(~real, 0.0)  # 0 · -inf would be NaN
            return squared * _divergence(teacher / temperature, log_student).mean(dim=1)
        case "labels":
            log_student = (pool_rows(outputs, mask, pool) / temperature).log_softmax(dim=1)
            return squared * _divergence(teacher / temperature, log_student)
        case "tags":
            logits = pool_rows(outputs, mask, pool) / temperature
            probabilities = (teacher / temperature).sigmoid()
            losses = nn.functional.binary_cross_entropy_with_logits(logits, probabilities, reduction="none")
            return squared * losses.mean(dim=1)
        case "scores":
            return (pool_rows(outputs, mask, pool)[:, 0] - teacher[:, 0]) ** 2
        case _:
            assert_never(task.kind)


def _divergence(teacher: Tensor, log_student: Tensor) -> Tensor:
    """KL(p ‖ q) = Σ p (log p - log q) over dimension 1; p is the softmax of `teacher`, log q is `log_student`."""
    return nn.functional.kl_div(log_student, teacher.softmax(dim=1), reduction="none").sum(dim=1)
