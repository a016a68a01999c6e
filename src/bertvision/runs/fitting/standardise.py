"""What `layer_concat` is standardised by, before it is trained: statistics of some batches of its states."""

from collections.abc import Iterable, Sequence
from itertools import islice

import torch
from torch import Tensor

from bertvision.heads.layer_concat import LayerConcat
from bertvision.objectives import pool_rows
from bertvision.tasks.examples import IntArray
from bertvision.training.fit import States
from bertvision.training.plan import StepPlan
from bertvision.training.trainee import Trainee

BATCHES, TOKENS = 8, 8192
"""Batches that the statistics come from, and about as many tokens in all: more of them hardly change the statistics,
and an encoder may have to run for each."""


def sample_windows(plan: StepPlan, lengths: IntArray) -> list[IntArray]:
    """A few windows of each of the first batches of a plan.

    Args:
        plan: which windows are learned at which step.
        lengths: (windows,) states of each that heads read.
    """
    batches = [rows for _, rows in islice(plan.steps_from(0), BATCHES)]
    return [rows[: max(1, TOKENS // len(batches) // int(lengths[rows].max()))] for rows in batches]


@torch.no_grad()
def standardise_heads(trainees: Sequence[Trainee], states: States, batches: Iterable[IntArray]) -> None:
    """Set the mean and the deviation of every number that heads of this kind read, over real tokens."""
    heads = [trainee.head for trainee in trainees if isinstance(trainee.head, LayerConcat)]
    if not heads:
        return
    count, lowest = 0, 0
    total: Tensor | float = 0.0
    squares: Tensor | float = 0.0
    for rows in batches:
        batch = states.batch(rows)
        lowest = batch.lowest
        every, mask = batch.padded.states, batch.padded.mask
        # heads that pool tokens themselves begin with their mean, which varies less than tokens do
        read = pool_rows(every, mask, "mean") if heads[0].token_pool is not None else every.transpose(1, 2)[mask]
        tokens = read.double()  # (tokens, layers, width)
        count += len(tokens)
        total = total + tokens.sum(dim=0)
        squares = squares + tokens.square().sum(dim=0)
    mean = torch.as_tensor(total) / count
    deviation = (torch.as_tensor(squares) / count - mean.square()).clamp(min=0.0).sqrt()
    deviation = torch.where(deviation < 1e-6, 1.0, deviation)  # a number that never changes stays as it is
    for head in heads:
        layers = head.among(lowest)
        head.standardise(mean[layers].float(), deviation[layers].float())
