"""Adapter pooling with a second branch: the adapted mixture of the layers stands beside the adapted layers."""

from typing import final

from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Whole
from bertvision.heads.parts.adapter import Adapter
from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap
from bertvision.heads.parts.pool import LayerPool


@final
class AdapterPoolMix(Head):
    """Project the adapted layers of a token, its adapted mixture of layers, and with `skip` its last layer."""

    def __init__(self, shape: HeadShape, *, size: Whole = 386, shared: bool = True, skip: bool = True) -> None:
        super().__init__(shape)
        self.skip = skip
        self.adapter = Adapter(shape.width, size, layers=None if shared else shape.layers)
        self.pool = LayerPool(shape.layers)
        self.pooled_adapter = Adapter(shape.width, size)
        self.project = OutputMap(size * (shape.layers + 1) + shape.width * skip, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        size = self.adapter.size
        own, mixed, last = self.project.weight.tensor_split(
            (size * self.shape.layers, size * (self.shape.layers + 1)), 1
        )
        outputs = self.adapter.scores(states, own).sum(dim=1) + self.project.bias  # (batch, tokens, outputs)
        outputs = outputs + self.pooled_adapter.scores(self.pool(states)[:, None], mixed)[:, 0]
        return outputs + layer_scores(states[:, -1:], last)[:, 0] if self.skip else outputs
