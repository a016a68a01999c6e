"""All layers side by side, standardised, then one linear map: convex, so that it can be solved."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.parts.float32_products import layer_maps
from bertvision.heads.parts.output import OutputMap


@final
class LayerConcat(LayerwiseHead):
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
        """Set the mean and deviation that every number is standardised by, each (layers, width)."""
        self.mean.copy_(mean)
        self.deviation.copy_(deviation)

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        # standardised weights instead of standardised states, and layer by layer: nothing is put side by side
        weight = self._weight().transpose(0, 1)[first : first + states.shape[1]]
        return (layer_maps(states, weight),)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        bias = self.project.bias - (self._weight() * self.mean).sum(dim=(1, 2))
        return parts[0].sum(dim=1) + bias

    def _weight(self) -> Tensor:
        """The weight for states that are not standardised, (outputs, layers, width)."""
        return self.project.weight.reshape(-1, *self.mean.shape) / self.deviation
