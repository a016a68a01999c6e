"""Document 002's dot attention over layers: the weight vector of each output is its query."""

from typing import ClassVar, final

from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.parts.float32_products import layer_scores
from bertvision.heads.parts.output import OutputMap


@final
class DotAttention(LayerwiseHead):
    """Output o is qₒ · Σ αₗ hₗ + bₒ with α = softmax over layers of qₒ · hₗ; no parameters but the output's."""

    first_layer: ClassVar[int] = 1

    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape)
        self.project = OutputMap(shape.width, shape.outputs)

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        return (layer_scores(states, self.project.weight),)

    @override
    def layer_attention(self, states: Tensor) -> Tensor:
        (scores,) = self.parts(states)
        return scores.softmax(dim=1)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        (scores,) = parts  # (batch, layers, tokens, outputs)
        # q · Σ α h = Σ α (q · h): the weighted sum of states is never made
        return (scores.softmax(dim=1) * scores).sum(dim=1) + self.project.bias
