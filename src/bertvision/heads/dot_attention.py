"""Document 002's dot attention: every output vector asks the layers of a token itself."""

from typing import ClassVar, final

from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.parts.output import OutputMap, layer_scores


@final
class DotAttention(Head):
    """Output o is qₒ · Σ αₗ hₗ + bₒ with α = softmax over layers of qₒ · hₗ; no parameters but the output's."""

    first_layer: ClassVar[int] = 1

    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape)
        self.project = OutputMap(shape.width, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        scores = layer_scores(states, self.project.weight)  # (batch, layers, tokens, outputs)
        # q · Σ α h = Σ α (q · h): the weighted sum of states is never made
        return (scores.softmax(dim=1) * scores).sum(dim=1) + self.project.bias
