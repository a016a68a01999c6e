"""A side network: one small transformer block per layer, fed by that layer; no gradient enters the encoder."""

from types import MethodType
from typing import cast, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.heads.head import HeadShape, LayerwiseHead
from bertvision.heads.options import Share, Whole
from bertvision.heads.parts.output import OutputMap


@final
class Ladder(LayerwiseHead):
    """Climb the layers: each rung mixes what came from below with its layer made small, and attends over tokens."""

    token_wise = False

    def __init__(
        self, shape: HeadShape, *, size: Whole = 96, heads: Whole = 4, expand: Whole = 2, dropout: Share = 0.1
    ) -> None:
        super().__init__(shape)
        if size % heads:
            raise BertVisionError(f"head 'ladder': size is {size}, a multiple of heads ({heads}) is expected.")
        self.rungs = nn.ModuleList(
            _Rung(shape.width, size, heads=heads, expand=expand, dropout=dropout, lowest=layer == 0)
            for layer in range(shape.layers)
        )
        self.norm = nn.LayerNorm(size)
        self.project = OutputMap(size, shape.outputs)

    @override
    def compile_steps(self) -> None:
        program = torch.compile(_Rung.forward, dynamic=True)  # one for all rungs
        for rung in self.rungs:
            rung.forward = MethodType(program, rung)

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        entering = zip(self.rungs[first:], states.detach().unbind(dim=1), strict=False)
        return (torch.stack([cast("_Rung", rung).enter(layer) for rung, layer in entering], dim=1),)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        # attention's 0 times what overflows in padding would be NaN
        entered = torch.where(mask[:, None, :, None], parts[0], 0.0)  # (batch, layers, tokens, size)
        below: Tensor | None = None
        for rung, layer in zip(self.rungs, entered.unbind(dim=1), strict=True):
            below = rung(below, layer, mask)  # (batch, tokens, size)
        outputs: Tensor = self.project(self.norm(below))
        return outputs


@final
class _Rung(nn.Module):
    def __init__(self, width: int, size: int, *, heads: int, expand: int, dropout: float, lowest: bool) -> None:
        super().__init__()
        self.heads = heads
        self.enter = nn.Linear(width, size)
        self.enter_norm = nn.LayerNorm(size)
        self.gate = None if lowest else nn.Parameter(torch.zeros(()))  # half from below, half from the layer
        self.attention_norm = nn.LayerNorm(size)
        self.attention = nn.Linear(size, 3 * size)
        self.merge = nn.Linear(size, size)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, expand * size), nn.GELU(), nn.Linear(expand * size, size)
        )
        self.dropout = nn.Dropout(dropout)

    @override
    def forward(self, below: Tensor | None, entered: Tensor, mask: Tensor) -> Tensor:
        inner = self.enter_norm(entered)
        if below is not None and self.gate is not None:
            share = torch.sigmoid(self.gate)
            inner = share * below + (1 - share) * inner
        inner = inner + self.dropout(self._attend(self.attention_norm(inner), mask))
        outputs: Tensor = inner + self.dropout(self.feed_forward(inner))
        return outputs

    def _attend(self, tokens: Tensor, mask: Tensor) -> Tensor:
        parts = self.attention(tokens).unflatten(-1, (3, self.heads, -1))  # (batch, tokens, 3, heads, …)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, …)
        read = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        merged: Tensor = self.merge(read.transpose(1, 2).flatten(2))
        return merged
