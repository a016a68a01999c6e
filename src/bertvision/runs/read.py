"""One pass over the states of a split for many heads at once."""

from collections.abc import Sequence

import numpy as np
import torch

from bertvision.evaluation.outputs import Outputs, split_scores
from bertvision.heads import Head
from bertvision.objectives import Pool, pool_rows
from bertvision.runs.outputs import frozen_batches
from bertvision.runs.states import StreamStates, can_follow
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows
from bertvision.training.fit import States


@torch.inference_mode()
def read_heads(  # noqa: PLR0913 - what outputs depend on, by keyword
    heads: Sequence[Head], states: States, windows: Windows, *, task: Task, pool: Pool, device: torch.device, bf16: bool
) -> list[Outputs]:
    """The outputs of every head on every window of a split."""
    spans = task.kind == "spans"
    count = len(windows.ids) if spans else len(windows)
    arrays = [np.empty((count, task.outputs), dtype=np.float32) for _ in heads]
    modes = [head.training for head in heads]
    for head in heads:
        head.eval()
    follows = bool(heads) and spans and all(can_follow(head) for head in heads)
    for rows in frozen_batches(windows, device):
        places = windows.places(rows) if spans else rows
        if follows and isinstance(states, StreamStates):
            results = states.follow(rows, heads)
        else:
            batch = states.batch(rows)
            with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                results = [batch.read(head, None if spans else pool) for head in heads]
        for array, (outputs, mask) in zip(arrays, results, strict=True):
            values = outputs.float()[mask] if spans else pool_rows(outputs.float(), mask, pool)
            array[places] = values.cpu().numpy()
    for head, mode in zip(heads, modes, strict=True):
        head.train(mode)
    return [split_scores(array) for array in arrays] if spans else list(arrays)
