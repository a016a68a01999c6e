"""One pass over the states of a split for many heads at once."""

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
"""Who is told what takes long now."""


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
    """The outputs of every head on every window of a split.

    Args:
        heads: the heads that read.
        states: states of the windows.
        windows: windows of the split.
        task: what is asked.
        pool: which row counts for labels, tags and scores.
        device: device of the heads.
        bf16: whether they compute in bfloat16.
        tell: hears now and then how far that is, where it takes long.
    """
    if not heads:
        return []
    spans = task.kind == "spans"
    rows_of = None if spans else pool  # of spans every token counts
    gathered = GatheredOutputs(task, windows, len(heads))
    modes = [head.training for head in heads]
    for head in heads:
        head.eval()
    follows = spans and all(can_follow(head) for head in heads)
    done, told = 0, time.monotonic()
    for rows in frozen_batches(windows.sizes, device):
        if follows and isinstance(states, StreamStates):
            results = states.follow(rows, heads)
        else:
            batch = states.batch(rows)
            with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                results = [batch.read(head, rows_of) for head in heads]
        gathered.put(rows, (counted_outputs(outputs, mask, rows_of) for outputs, mask in results))
        done += len(rows)
        if tell is not None and time.monotonic() - told >= SHOW_SECONDS:
            told = time.monotonic()
            tell(f"{in_words(len(heads), 'head')}: {done:,} of {len(windows):,} windows read …")
    for head, mode in zip(heads, modes, strict=True):
        head.train(mode)
    return gathered.outputs()
