"""The last linear map of every head."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.parts.float32_products import float32_product


@final
class OutputMap(nn.Linear):
    """A linear map whose result is always float32."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        nn.init.normal_(self.weight, std=0.02)  # as BERT initialises its output
        nn.init.zeros_(self.bias)

    @override
    def forward(self, input: Tensor) -> Tensor:
        if input.dtype == torch.float32:
            with torch.autocast(input.device.type, enabled=False):
                return nn.functional.linear(input, self.weight.float(), self.bias.float())
        rows = float32_product(input.reshape(1, -1, self.in_features), self.weight[None])
        return rows.reshape(*input.shape[:-1], -1) + self.bias.float()


def tokens_first(maps: Tensor) -> Tensor:
    """(batch, channels, tokens, width) → (batch, tokens, channels · width)."""
    return maps.transpose(1, 2).flatten(2)
