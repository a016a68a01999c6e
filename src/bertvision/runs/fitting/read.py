"""read_heads: the outputs of many heads from one pass over the states of a split."""

import time
from collections.abc import Callable, Sequence

import torch

from bertvision.amounts import in_words
from bertvision.evaluation.outputs import GatheredOutputs, Outputs
from bertvision.heads import Head
from bertvision.inference.computed_states import StreamStates, can_follow
from bertvision.inference.outputs import counted_outputs, frozen_batches
from bertvision.objectives import Pool
from bertvision.runs.watch import SHOW_SECONDS
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows
from bertvision.training.fit import States

Tell = Callable[[str], None]
"""Progress callback that gets a message."""


@torch.inference_mode()
def read_heads(  # noqa: PLR0913 - what outputs depend on, by keyword
    heads: Sequence[Head],
    states: States,
    windows: Windows,
    *,
    task: Task,
    pool: Pool,
    device: torch.device,
    bf16: bool,
    tell: Tell | None = None,
) -> list[Outputs]:
    """The outputs of every head on a split, without dropout and gradients; states are computed or read only once.

    Args:
        heads: the heads.
        states: states of the windows.
        windows: windows of the split.
        task: the task.
        pool: how tokens are pooled, for labels, tags and scores.
        device: device of the heads.
        bf16: whether heads compute in bfloat16.
        tell: progress callback, called about every `SHOW_SECONDS`.
    """
    if not heads:
        return []
    spans = task.kind == "spans"
    output_pool = None if spans else pool  # spans need the outputs of every token
    gathered = GatheredOutputs(task, windows, len(heads))
    modes = [head.training for head in heads]
    for head in heads:
        head.eval()
    layer_by_layer = spans and all(can_follow(head) for head in heads)  # then all layers are never in memory at once
    done, last_told = 0, time.monotonic()
    for rows in frozen_batches(windows.sizes, device):
        if layer_by_layer and isinstance(states, StreamStates):
            results = states.follow(rows, heads)
        else:
            batch = states.batch(rows)
            with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                results = [batch.read(head, output_pool) for head in heads]
        gathered.put(rows, (counted_outputs(outputs, mask, output_pool) for outputs, mask in results))
        done += len(rows)
        if tell is not None and time.monotonic() - last_told >= SHOW_SECONDS:
            last_told = time.monotonic()
            tell(f"{in_words(len(heads), 'head')}: {done:,} of {len(windows):,} windows read …")
    for head, mode in zip(heads, modes, strict=True):
        head.train(mode)
    return gathered.outputs()
