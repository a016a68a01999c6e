"""standardise_heads: set the mean and deviation of `layer_concat` heads from a sample, before they are trained."""

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
"""Number of batches to sample from, and about the number of tokens in all; more would hardly change the statistics,
but the encoder may have to run for each."""


def sample_windows(plan: StepPlan, lengths: IntArray) -> list[IntArray]:
    """The first windows of each of the first `BATCHES` batches, about `TOKENS` tokens in all.

    Args:
        plan: the batches of training.
        lengths: (windows,) number of rows per window that heads read: its tokens, or 1 if they are pooled.
    """
    batches = [rows for _, rows in islice(plan.steps_from(0), BATCHES)]
    return [rows[: max(1, TOKENS // len(batches) // int(lengths[rows].max()))] for rows in batches]


@torch.no_grad()
def standardise_heads(trainees: Sequence[Trainee], states: States, batches: Iterable[IntArray]) -> None:
    """Set the mean and standard deviation of every `LayerConcat` head, per layer and number, over real tokens.

    Args:
        trainees: any heads; of other classes they stay unchanged.
        states: states of the training windows.
        batches: the sample, from `sample_windows`.
    """
    heads = [trainee.head for trainee in trainees if isinstance(trainee.head, LayerConcat)]
    if not heads:
        return
    count, lowest = 0, 0
    total: Tensor | float = 0.0
    squares: Tensor | float = 0.0
    for rows in batches:
        batch = states.batch(rows)
        lowest = batch.lowest
        hidden, mask = batch.padded.states, batch.padded.mask  # (batch, layers, tokens, width), (batch, tokens)
        # attention pooling starts as the mean over tokens, which varies less than single tokens
        read = pool_rows(hidden, mask, "mean") if heads[0].token_pool is not None else hidden.transpose(1, 2)[mask]
        tokens = read.double()  # (tokens, layers, width)
        count += len(tokens)
        total = total + tokens.sum(dim=0)
        squares = squares + tokens.square().sum(dim=0)
    mean = torch.as_tensor(total) / count
    deviation = (torch.as_tensor(squares) / count - mean.square()).clamp(min=0.0).sqrt()
    deviation = torch.where(deviation < 1e-6, 1.0, deviation)  # constant numbers are not scaled
    for head in heads:
        layers = head.among(lowest)
        head.standardise(mean[layers].float(), deviation[layers].float())
