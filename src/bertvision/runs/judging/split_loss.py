"""The loss on a split, from the same outputs as its scores."""

import numpy as np
import torch

from bertvision.evaluation.ensemble import token_log_probabilities
from bertvision.evaluation.outputs import Outputs, SpanScores
from bertvision.objectives import example_losses
from bertvision.tasks.examples import gold_targets
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task


def split_loss(task: Task, part: Part, outputs: Outputs) -> float:
    """The mean training loss of the task on a split, without class weights or thresholds.

    For spans it is the mean over all windows; the target of a window without the answer is "no answer". For labels,
    tags and scores it is the mean over the examples; if an example has several windows, as in answerability, the one
    whose row was kept counts (see `merge_rows`).

    Args:
        task: the task.
        part: the split.
        outputs: scores of every token, or one row per example, (examples, outputs).
    """
    if isinstance(outputs, SpanScores):
        # tokens are laid end to end here; `span_losses` gives the same for padded batches
        bounds = part.windows.bounds
        right = bounds[:-1, None] + part.windows.targets.astype(np.int64)  # (windows, 2)
        ends = zip((outputs.start, outputs.end), right.T, strict=True)
        return -float(np.mean([token_log_probabilities(scores, bounds)[tokens] for scores, tokens in ends]))
    rows = torch.tensor(outputs)[:, None]  # (examples, 1, outputs)
    mask = torch.ones(rows.shape[:2], dtype=torch.bool)
    targets = torch.tensor(gold_targets(part.examples))
    return float(example_losses(task, rows, mask, targets, pool="cls").mean())
