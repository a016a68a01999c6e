"""One linear map of the last layer: the encoder's own output."""

from collections.abc import Sequence
from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Share
from bertvision.heads.parts.output import OutputMap


@final
class LastLayer(Head):
    """Project the last layer, as plain fine-tuning does."""

    def __init__(self, shape: HeadShape, *, dropout: Share = 0.0) -> None:
        super().__init__(shape)
        self.dropout = nn.Dropout(dropout)
        self.project = OutputMap(shape.width, shape.outputs)

    @property
    @override
    def needs(self) -> Sequence[int]:
        return (self.shape.layers - 1,)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        outputs: Tensor = self.project(self.dropout(states[:, -1]))
        return outputs
