"""A small recurrent cell that reads the layers of each token, from the lowest up."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.options import Share, Whole
from bertvision.heads.parts.output import OutputMap


@final
class Recurrent(LayerwiseHead):
    """Project the last state of a gated recurrent unit that reads the layers of a token from the lowest up."""

    def __init__(self, shape: HeadShape, *, size: Whole = 128, dropout: Share = 0.0) -> None:
        super().__init__(shape)
        self.size = size
        self.read = nn.Linear(shape.width, 3 * size)
        self.recall = nn.Linear(size, 3 * size)
        self.dropout = nn.Dropout(dropout)
        self.project = OutputMap(size, shape.outputs)

    @override
    def compile_steps(self) -> None:
        self._remember = torch.compile(self._remember, dynamic=True)  # type: ignore[method-assign]  # for this one alone

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        return (self.read(states),)  # all layers in one map

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        (inputs,) = parts  # (batch, layers, tokens, 3 · size)
        memory = inputs.new_zeros(*mask.shape, self.size)
        for layer in inputs.unbind(dim=1):
            memory = self._remember(memory, layer)
        outputs: Tensor = self.project(self.dropout(memory))
        return outputs

    def _remember(self, memory: Tensor, layer: Tensor) -> Tensor:
        fresh, update, candidate = layer.chunk(3, dim=-1)
        recalled = self.recall(memory).chunk(3, dim=-1)
        gate = torch.sigmoid(update + recalled[1])
        proposal = torch.tanh(candidate + torch.sigmoid(fresh + recalled[0]) * recalled[2])
        return proposal + gate * (memory - proposal)
