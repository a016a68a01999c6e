"""The loss of a whole split, from the outputs that its scores come from."""

import numpy as np
import torch

from bertvision.evaluation.ensemble import token_log_probabilities
from bertvision.evaluation.outputs import Outputs, SpanScores
from bertvision.objectives import example_losses
from bertvision.tasks.examples import gold_targets
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task


def split_loss(task: Task, part: Part, outputs: Outputs) -> float:
    """The mean of the task's own training loss, no threshold considered, every window counting the same.

    Of questions over all windows: where a window lacks the answer, "no answer" is right. Of labels, tags and scores
    over the examples, whose rows these are: where several windows are asked whether there is an answer, that of the
    window which decides.
    """
    if isinstance(outputs, SpanScores):
        # tokens stand end to end, so that nothing is padded as `span_losses` would have it
        bounds = part.windows.bounds
        right = bounds[:-1, None] + part.windows.targets.astype(np.int64)  # (windows, 2)
        ends = zip((outputs.start, outputs.end), right.T, strict=True)
        return -float(np.mean([token_log_probabilities(scores, bounds)[tokens] for scores, tokens in ends]))
    rows = torch.tensor(outputs)[:, None]  # (examples, 1, outputs)
    mask = torch.ones(rows.shape[:2], dtype=torch.bool)
    targets = torch.tensor(gold_targets(part.examples))
    return float(example_losses(task, rows, mask, targets, pool="cls").mean())
