"""Document 004's head: dense blocks in sequence on the last layer, then one linear map."""

from collections.abc import Sequence
from itertools import pairwise
from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Share, Whole
from bertvision.heads.parts.output import OutputMap


@final
class DenseStack(Head):
    """Project the last layer after blocks of linear map, LayerNorm, dropout and ReLU, as wide as the encoder."""

    def __init__(self, shape: HeadShape, *, blocks: Whole = 4, size: Whole | None = None, dropout: Share = 0.1) -> None:
        super().__init__(shape)
        inner = shape.width if size is None else size
        widths = [shape.width] + [inner] * blocks
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(before, after), nn.LayerNorm(after), nn.Dropout(dropout), nn.ReLU())
                for before, after in pairwise(widths)
            )
        )
        self.project = OutputMap(inner, shape.outputs)

    @property
    @override
    def needs(self) -> Sequence[int]:
        return (self.shape.layers - 1,)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        outputs: Tensor = self.project(self.blocks(states[:, -1]))
        return outputs
