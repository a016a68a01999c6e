"""Document 002's weighted attention: every output vector asks the layers of a token through a matrix."""

from typing import ClassVar, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.parts.output import OutputMap, layer_scores


@final
class WeightedAttention(Head):
    """Output o is qₒ · Σ αₗ hₗ + bₒ with α = softmax over layers of qₒᵀ W hₗ, one W for all outputs."""

    first_layer: ClassVar[int] = 1

    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape)
        self.weight = nn.Parameter(torch.empty(shape.width, shape.width))
        nn.init.normal_(self.weight, std=0.02)
        self.project = OutputMap(shape.width, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        queries = self.project.weight  # (outputs, width)
        # qᵀ W first: a vector per output, where W h would be one per layer and token
        both = layer_scores(states, torch.cat([queries, queries @ self.weight]))
        scores, attention = both.chunk(2, dim=-1)  # each (batch, layers, tokens, outputs)
        return (attention.softmax(dim=1) * scores).sum(dim=1) + self.project.bias
