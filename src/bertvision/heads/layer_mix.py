"""Learned pooling: a weighted sum of all layers, then one linear map."""

from collections.abc import Sequence
from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Share
from bertvision.heads.parts.output import OutputMap
from bertvision.heads.parts.pool import Gate, LayerPool


@final
class LayerMix(Head):
    """Mix the layers with learned weights shared by all tokens, then project."""

    def __init__(
        self,
        shape: HeadShape,
        *,
        gate: Gate = "softmax",
        norm: bool = False,
        layer_dropout: Share = 0.0,
        dropout: Share = 0.0,
    ) -> None:
        super().__init__(shape)
        self.pool = LayerPool(shape.layers, gate=gate, norm=norm, dropout=layer_dropout)
        self.dropout = nn.Dropout(dropout)
        self.project = OutputMap(shape.width, shape.outputs)

    @property
    @override
    def needs(self) -> Sequence[int]:
        return self.pool.needs

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        outputs: Tensor = self.project(self.dropout(self.pool(states)))
        return outputs
