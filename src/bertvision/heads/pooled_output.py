"""A dense layer with an activation, then one linear map, of the last layer: how classification checkpoints end."""

from collections.abc import Callable, Sequence
from typing import Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Share
from bertvision.heads.parts.output import OutputMap

Activation = Literal["tanh", "relu", "gelu"]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
}


@final
class PooledOutput(Head):
    """Project an activated dense layer of the last layer, as BERT's pooler and classifier do with its first token."""

    def __init__(self, shape: HeadShape, *, activation: Activation = "tanh", dropout: Share = 0.0) -> None:
        super().__init__(shape)
        self.activation = activation
        self.dense = nn.Linear(shape.width, shape.width)
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)
        self.dropout = nn.Dropout(dropout)
        self.project = OutputMap(shape.width, shape.outputs)

    @property
    @override
    def needs(self) -> Sequence[int]:
        return (self.shape.layers - 1,)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        inner = _ACTIVATIONS[self.activation](self.dense(states[:, -1]))
        outputs: Tensor = self.project(self.dropout(inner))
        return outputs
