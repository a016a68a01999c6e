"""Pooling, then an adapter, then one linear map of it and of the last layer."""

from typing import final

from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Whole
from bertvision.heads.parts.adapter import Adapter
from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap
from bertvision.heads.parts.pool import Pooling, build_pool


@final
class PooledAdapter(Head):
    """Project the adapted pool of the layers; with `skip` the last layer beside it."""

    def __init__(self, shape: HeadShape, *, pool: Pooling = "mix", size: Whole = 386, skip: bool = True) -> None:
        super().__init__(shape)
        self.skip = skip
        self.pool = build_pool(pool, shape.layers)
        self.adapter = Adapter(shape.width, size)
        self.project = OutputMap(size + shape.width * skip, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        own, last = self.project.weight.tensor_split([self.adapter.size], dim=1)
        outputs = self.adapter.scores(self.pool(states)[:, None], own)[:, 0] + self.project.bias
        return outputs + layer_scores(states[:, -1:], last)[:, 0] if self.skip else outputs
