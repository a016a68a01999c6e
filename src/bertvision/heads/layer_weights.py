"""Document 002's parameterised model: layer weights and a scale of its own for every output."""

from typing import ClassVar, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap


@final
class LayerWeights(LayerwiseHead):
    """Output o is γₒ Σ wₒₗ (qₒ · hₗ) + bₒ, with the weights as they are, or their softmax."""

    first_layer: ClassVar[int] = 1

    def __init__(self, shape: HeadShape, *, softmax: bool = False) -> None:
        super().__init__(shape)
        self.softmax = softmax
        self.mix = nn.Parameter(torch.zeros(shape.outputs, shape.layers))
        self.scale = nn.Parameter(torch.ones(shape.outputs))
        self.project = OutputMap(shape.width, shape.outputs)
        if not softmax:
            nn.init.normal_(self.mix, std=0.05)  # zeros would give no output, and the map no gradient

    @override
    def layer_weights(self) -> Tensor:
        return self.scale[:, None] * (self.mix.softmax(dim=1) if self.softmax else self.mix)

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        return (layer_scores(states, self.project.weight),)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        (scores,) = parts  # (batch, layers, tokens, outputs)
        factors = self.layer_weights().T[:, None]  # (layers, 1, outputs)
        return (factors * scores).sum(dim=1) + self.project.bias
