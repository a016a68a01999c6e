"""Adapter pooling: every layer made small by an adapter, all of them side by side, then one linear map."""

from typing import final

from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.options import Whole
from bertvision.heads.parts.adapter import Adapter
from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap


@final
class AdapterPool(LayerwiseHead):
    """Project the adapted layers of a token; with `skip` its last layer beside them."""

    def __init__(self, shape: HeadShape, *, size: Whole = 386, shared: bool = True, skip: bool = False) -> None:
        super().__init__(shape)
        self.skip = skip
        self.adapter = Adapter(shape.width, size, layers=None if shared else shape.layers)
        self.project = OutputMap(size * shape.layers + shape.width * skip, shape.outputs)

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        if not self.skip:
            return (self.adapter.scores(states, self.project.weight, first),)
        weight, last = self.project.weight.tensor_split([self.adapter.size * self.shape.layers], dim=1)
        top = states[:, max(0, self.shape.layers - 1 - first) :]  # the last layer, if it is among these
        return self.adapter.scores(states, weight, first), layer_scores(top, last)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        return sum((part.sum(dim=1) for part in parts), start=self.project.bias)
