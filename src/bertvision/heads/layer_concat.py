"""All layers side by side, standardised, then one linear map: convex, so that it can be solved."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.parts.output import OutputMap


@final
class LayerConcat(Head):
    """Project all layers of a token at once.

    Each number is standardised first, by a mean and a deviation that `standardise` sets; until then they are 0 and 1.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape)
        self.register_buffer("mean", torch.zeros(shape.layers, shape.width))
        self.register_buffer("deviation", torch.ones(shape.layers, shape.width))
        self.project = OutputMap(shape.layers * shape.width, shape.outputs)

    def standardise(self, mean: Tensor, deviation: Tensor) -> None:
        """Set what every number is standardised by, each (layers, width)."""
        self.mean.copy_(mean)
        self.deviation.copy_(deviation)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        weight = self.project.weight.reshape(-1, *self.mean.shape) / self.deviation  # (outputs, layers, width)
        bias = self.project.bias - torch.einsum("olw,lw->o", weight, self.mean)
        # standardised weights instead of standardised states, and layer by layer: nothing is put side by side
        with torch.autocast(states.device.type, enabled=False):
            layers = states.float() @ weight.permute(1, 2, 0).float()  # (batch, layers, tokens, outputs)
        return layers.sum(dim=1) + bias
