"""A dense layer with an activation, then one linear map, of the last layer: how classification checkpoints end."""

from collections.abc import Callable
from typing import Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape

Activation = Literal["tanh", "relu", "gelu"]

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
}


@final
class PooledOutput(Head):
    """Project an activated dense layer of the last layer, as BERT's pooler and classifier do with its first token."""

    def __init__(self, shape: HeadShape, *, activation: Activation = "tanh", dropout: float = 0.0) -> None:
        super().__init__()
        self.activation = activation
        self.dense = nn.Linear(shape.width, shape.width)
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(shape.width, shape.outputs)
        for linear in (self.dense, self.project):
            nn.init.normal_(linear.weight, std=0.02)
            nn.init.zeros_(linear.bias)

    @property
    @override
    def reads(self) -> tuple[int, ...]:
        return (-1,)

    @override
    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        inner = _ACTIVATIONS[self.activation](self.dense(states[:, -1]))
        outputs: Tensor = self.project(self.dropout(inner))
        return outputs
