"""Average pooling: the mean of all layers, then one linear map."""

from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Share
from bertvision.heads.parts.output import OutputMap


@final
class LayerMean(Head):
    """Project the mean of the layers."""

    def __init__(self, shape: HeadShape, *, dropout: Share = 0.0) -> None:
        super().__init__(shape)
        self.dropout = nn.Dropout(dropout)
        self.project = OutputMap(shape.width, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        outputs: Tensor = self.project(self.dropout(states.mean(dim=1)))
        return outputs
