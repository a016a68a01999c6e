"""Average pooling: the mean of all layers, then one linear map."""

from typing import final

from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.options import Share
from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap
from bertvision.heads.parts.pool import SharedDropout


@final
class LayerMean(LayerwiseHead):
    """Project the mean of the layers."""

    def __init__(self, shape: HeadShape, *, dropout: Share = 0.0) -> None:
        super().__init__(shape)
        self.dropout = SharedDropout(dropout)
        self.project = OutputMap(shape.width, shape.outputs)

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        return (layer_scores(self.dropout(states), self.project.weight),)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        (scores,) = parts  # (batch, layers, tokens, outputs)
        return scores.mean(dim=1) + self.project.bias
