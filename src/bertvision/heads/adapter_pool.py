"""Adapter pooling: every layer made small by an adapter, all of them side by side, then one linear map."""

from typing import final

import torch
from torch import Tensor
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Whole
from bertvision.heads.parts.adapter import Adapter
from bertvision.heads.parts.output import OutputMap, tokens_first
from bertvision.heads.parts.pool import LayerPool


@final
class AdapterPool(Head):
    """Project the adapted layers of a token; with `skip` its last layer beside them, with `mix` an adapted mixture."""

    def __init__(
        self, shape: HeadShape, *, size: Whole = 386, shared: bool = True, skip: bool = False, mix: bool = False
    ) -> None:
        super().__init__(shape)
        self.skip = skip
        self.adapter = Adapter(shape.width, size, layers=None if shared else shape.layers)
        self.pool = LayerPool(shape.layers) if mix else None
        self.pooled_adapter = Adapter(shape.width, size) if mix else None
        inputs = size * shape.layers + size * mix + shape.width * skip
        self.project = OutputMap(inputs, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        parts = [tokens_first(self.adapter(states))]  # (batch, tokens, layers · size)
        if self.pool is not None and self.pooled_adapter is not None:
            parts.append(self.pooled_adapter(self.pool(states)))
        if self.skip:
            parts.append(states[:, -1])
        outputs: Tensor = self.project(torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0])
        return outputs
