"""Document 002's weighted (bilinear) attention over layers: queries are multiplied by a learned matrix."""

from typing import ClassVar, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap


@final
class WeightedAttention(LayerwiseHead):
    """Output o is qₒ · Σ αₗ hₗ + bₒ with α = softmax over layers of qₒᵀ W hₗ, one W for all outputs."""

    first_layer: ClassVar[int] = 1

    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape)
        self.weight = nn.Parameter(torch.empty(shape.width, shape.width))
        nn.init.normal_(self.weight, std=0.02)
        self.project = OutputMap(shape.width, shape.outputs)

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        queries = self.project.weight  # (outputs, width)
        # qᵀ W first: a vector per output, where W h would be one per layer and token
        return (layer_scores(states, torch.cat([queries, queries @ self.weight])),)

    @override
    def layer_attention(self, states: Tensor) -> Tensor:
        _, attention = self.parts(states)[0].chunk(2, dim=-1)
        return attention.softmax(dim=1)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        scores, attention = parts[0].chunk(2, dim=-1)  # each (batch, layers, tokens, outputs)
        return (attention.softmax(dim=1) * scores).sum(dim=1) + self.project.bias
