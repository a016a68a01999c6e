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
        self._cell = torch.compile(self._cell, dynamic=True)  # type: ignore[method-assign]  # for this one alone

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        return (self.read(states),)  # all layers in one map

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        (inputs,) = parts  # (batch, layers, tokens, 3 · size)
        hidden = inputs.new_zeros(*mask.shape, self.size)
        for layer in inputs.unbind(dim=1):
            hidden = self._cell(layer, hidden)
        outputs: Tensor = self.project(self.dropout(hidden))
        return outputs

    def _cell(self, inputs: Tensor, hidden: Tensor) -> Tensor:
        """One step of the unit, gated as in `torch.nn.GRUCell`; inputs: projected, (…, 3 · size)."""
        reset, update, candidate = inputs.chunk(3, dim=-1)
        from_hidden = self.recall(hidden).chunk(3, dim=-1)
        reset = torch.sigmoid(reset + from_hidden[0])
        update = torch.sigmoid(update + from_hidden[1])
        candidate = torch.tanh(candidate + reset * from_hidden[2])
        return candidate + update * (hidden - candidate)
