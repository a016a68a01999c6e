"""Adapter pooling: every layer made small by an adapter, all of them side by side, then one linear map."""

from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.options import Whole
from bertvision.heads.parts.adapter import Adapter
from bertvision.heads.parts.output import OutputMap
from bertvision.heads.parts.wide import layer_scores


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
        own = self.adapter.size * self.shape.layers
        scores = self.adapter.scores(states, self.project.weight[:, :own], first)  # (batch, layers, tokens, outputs)
        if self.skip and first + states.shape[1] == self.shape.layers:
            top = layer_scores(states[:, -1:], self.project.weight[:, own:])
            scores = scores + nn.functional.pad(top, (0, 0, 0, 0, states.shape[1] - 1, 0))
        return (scores,)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        return parts[0].sum(dim=1) + self.project.bias
