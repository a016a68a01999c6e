"""Learned pooling: a weighted sum of all layers, then one linear map."""

from collections.abc import Sequence
from typing import final

from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.options import Share
from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap
from bertvision.heads.parts.pool import Gate, LayerPool, SharedDropout


@final
class LayerMix(LayerwiseHead):
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
        self.dropout = SharedDropout(dropout)
        self.project = OutputMap(shape.width, shape.outputs)

    @property
    @override
    def needs(self) -> Sequence[int]:
        return self.pool.needs

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        return (layer_scores(self.dropout(self.pool.normed(states)), self.project.weight),)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        (scores,) = parts  # (batch, layers, tokens, outputs)
        # W Σ w h = Σ w (W h): the mixture of states is never made
        factors = self.pool.factors()[:, None, None]
        return (factors * scores[:, : len(factors)]).sum(dim=1) + self.project.bias
