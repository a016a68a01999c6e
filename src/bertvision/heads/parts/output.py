"""The last linear map of every head."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override


@final
class OutputMap(nn.Linear):
    """A linear map whose result is always float32: answers' scores rounded to 8 bits would tie."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        nn.init.normal_(self.weight, std=0.02)  # as BERT initialises its output
        nn.init.zeros_(self.bias)

    @override
    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return nn.functional.linear(input.float(), self.weight.float(), self.bias.float())


def layer_scores(states: Tensor, queries: Tensor) -> Tensor:
    """How well every layer of every token agrees with some vectors, in float32, for the same reason.

    Args:
        states: (batch, layers, tokens, width).
        queries: (queries, width).

    Returns:
        (batch, layers, tokens, queries).
    """
    with torch.autocast(states.device.type, enabled=False):
        return nn.functional.linear(states.float(), queries.float())


def tokens_first(maps: Tensor) -> Tensor:
    """(batch, channels, tokens, width) → (batch, tokens, channels · width)."""
    return maps.transpose(1, 2).flatten(2)
