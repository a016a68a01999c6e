"""A side network: one small transformer block per layer, fed by that layer; no gradient enters the encoder."""

from types import MethodType
from typing import NamedTuple, cast, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.heads.head import HeadShape, PackedHead
from bertvision.heads.options import Share, Whole
from bertvision.heads.parts.output import OutputMap


@final
class Ladder(PackedHead):
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
        if not self.takes_packed(parts):
            return self._climb(entered, _Seen(mask))
        from bertvision.encoder.packed import padded_bounds  # noqa: PLC0415 - imports transformers

        flat = entered.transpose(0, 1).flatten(1, 2)[None]  # (1, layers, batch · tokens, size)
        return self._climb(flat, _Seen(bounds=padded_bounds(mask), longest=mask.shape[1])).view(*mask.shape, -1)

    @override
    def combine_packed(self, parts: tuple[Tensor, ...], bounds: Tensor, longest: int) -> Tensor:
        return self._climb(parts[0], _Seen(bounds=bounds, longest=longest))

    def _climb(self, entered: Tensor, seen: "_Seen") -> Tensor:
        below: Tensor | None = None
        for rung, layer in zip(self.rungs, entered.unbind(dim=1), strict=True):
            below = rung(below, layer, *seen)  # (batch, tokens, size)
        outputs: Tensor = self.project(self.norm(below))
        return outputs


class _Seen(NamedTuple):
    """Which tokens see each other: those that are real, or those between two bounds, at most so many."""

    mask: Tensor | None = None
    bounds: Tensor | None = None
    longest: int = 0


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
    def forward(
        self, below: Tensor | None, entered: Tensor, mask: Tensor | None, bounds: Tensor | None, longest: int
    ) -> Tensor:
        inner = self.enter_norm(entered)
        if below is not None and self.gate is not None:
            share = torch.sigmoid(self.gate)
            inner = share * below + (1 - share) * inner
        inner = inner + self.dropout(self._attend(self.attention_norm(inner), mask, bounds, longest))
        outputs: Tensor = inner + self.dropout(self.feed_forward(inner))
        return outputs

    def _attend(self, tokens: Tensor, mask: Tensor | None, bounds: Tensor | None, longest: int) -> Tensor:
        parts = self.attention(tokens).unflatten(-1, (3, self.heads, -1))  # (batch, tokens, 3, heads, …)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, …)
        if bounds is not None:
            from bertvision.encoder.packed import packed_attention  # noqa: PLC0415 - imports transformers

            read, _ = packed_attention(self, query, key, value, None, window_bounds=bounds, window_longest=longest)
        else:
            seen = None if mask is None else mask[:, None, None, :]
            read = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen).transpose(1, 2)
        merged: Tensor = self.merge(read.flatten(2))
        return merged
