"""A side network: one small transformer block per layer, fed by that layer; no gradient enters the encoder."""

from types import MethodType
from typing import cast, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.heads.head import HeadShape, PackedHead, WindowBounds
from bertvision.heads.options import Share, Whole
from bertvision.heads.parts.float32_products import has_kernels
from bertvision.heads.parts.layer_linear import layer_linear
from bertvision.heads.parts.output import OutputMap

MAX_HEAD_SIZE = 128
"""Largest attention head that our Triton kernel takes: its tiles stand in registers."""


@final
class Ladder(PackedHead):
    """A narrow transformer block (rung) per layer; its input is a gated sum of the last rung and the projected layer.

    The states are detached, so no gradient enters the encoder.
    """

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
        # one program for all rungs
        alone, packed = (torch.compile(step, dynamic=True) for step in (_Rung.forward, _Rung.forward_packed))
        for rung in self._each():
            rung.forward = MethodType(alone, rung)  # type: ignore[method-assign]  # for this one alone
            rung.forward_packed = MethodType(packed, rung)  # type: ignore[method-assign]

    @override
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        maps = [rung.enter for rung in self._each()[first : first + states.shape[1]]]
        return (layer_linear(states.detach(), [each.weight for each in maps], [each.bias for each in maps]),)

    @override
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        # attention's 0 times what overflows in padding would be NaN
        entered = torch.where(mask[:, None, :, None], parts[0], 0.0)  # (batch, layers, tokens, size)
        previous: Tensor | None = None
        for rung, layer in zip(self.rungs, entered.unbind(dim=1), strict=True):
            previous = rung(previous, layer, mask)  # (batch, tokens, size)
        outputs: Tensor = self.project(self.norm(previous))
        return outputs

    @override
    def takes_packed(self, parts: tuple[Tensor, ...]) -> bool:
        return has_kernels(parts[0]) and parts[0].shape[-1] <= MAX_HEAD_SIZE * self._each()[0].heads

    @override
    def combine_packed(self, parts: tuple[Tensor, ...], windows: WindowBounds) -> Tensor:
        previous: _Residual | None = None
        for rung, layer in zip(self._each(), parts[0].unbind(dim=1), strict=True):
            previous = rung.forward_packed(previous, layer, windows.bounds, windows.longest, windows.real)
        outputs: Tensor = self.project(self.norm(self._each()[-1].add_update(cast("_Residual", previous))))
        return outputs

    def _each(self) -> "list[_Rung]":
        return cast("list[_Rung]", list(self.rungs))


_Residual = tuple[Tensor, Tensor]
"""What a rung gives the next one, each (1, all tokens, size): the sum so far, and an update not yet added to it."""


@final
class _Rung(nn.Module):
    def __init__(self, width: int, size: int, *, heads: int, expand: int, dropout: float, lowest: bool) -> None:
        super().__init__()
        self.heads = heads
        self.enter = nn.Linear(width, size)
        self.enter_norm = nn.LayerNorm(size)
        self.gate = None if lowest else nn.Parameter(torch.zeros(()))  # half from the rung before, half from the layer
        self.attention_norm = nn.LayerNorm(size)
        self.attention = nn.Linear(size, 3 * size)
        self.merge = nn.Linear(size, size)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, expand * size), nn.GELU(), nn.Linear(expand * size, size)
        )
        self.dropout = nn.Dropout(dropout)

    @override
    def forward(self, previous: Tensor | None, entered: Tensor, mask: Tensor) -> Tensor:
        inner = self.enter_norm(entered)
        if previous is not None and self.gate is not None:
            share = torch.sigmoid(self.gate)
            inner = share * previous + (1 - share) * inner
        inner = inner + self.dropout(self._attend(self.attention_norm(inner), mask))
        outputs: Tensor = inner + self.dropout(self.feed_forward(inner))
        return outputs

    def forward_packed(
        self, previous: _Residual | None, entered: Tensor, bounds: Tensor, longest: int, real: Tensor | None
    ) -> _Residual:
        """The same of windows end to end, with as few passes over all tokens as possible, since these cost the time.

        There is one kernel between two products. What goes from rung to rung is not rounded to 16 bits: that would
        double the error of outputs and gradients. Sums over all tokens, for gradients of norms and gates, are taken
        together, or not at all.

        Args:
            previous: what the rung before gave; None for the lowest.
            entered: (1, all tokens, size).
            bounds: (windows + 1,) int32, where each window begins.
            longest: no window has more tokens.
            real: (1, all tokens) True where a token is no padding; None where all are.
        """
        if real is not None:  # a gradient's 0 times what overflows in padding would be NaN
            entered = torch.where(real[:, :, None], entered, 0.0)
        scale, shift, eps = self.enter_norm.weight, self.enter_norm.bias, self.enter_norm.eps
        if previous is None or self.gate is None:
            inner = nn.functional.layer_norm(entered, scale.shape, scale, shift, eps)
        else:
            share = torch.sigmoid(self.gate).expand_as(scale)  # as a row its gradient is summed with the norm's
            normed = nn.functional.layer_norm(entered, scale.shape, (1 - share) * scale, (1 - share) * shift, eps)
            inner = share * self.add_update(previous) + normed
        tokens = _normed_map(self.attention_norm, self.attention, inner)  # (1, all tokens, 3 · size)
        read = self._attend_within(tokens.view(tokens.shape[1], 3, self.heads, -1), bounds, longest)
        inner = inner + self.dropout(self.merge(read.flatten(1)[None]))
        norm, expand, activation, reduce = self.feed_forward
        expanded = _normed_map(cast("nn.LayerNorm", norm), cast("nn.Linear", expand), inner)
        update: Tensor = reduce(activation(expanded))
        return inner, update

    def add_update(self, previous: _Residual) -> Tensor:
        """The output of a rung."""
        inner, update = previous
        outputs: Tensor = inner + self.dropout(update)
        return outputs

    def _attend_within(self, parts: Tensor, bounds: Tensor, longest: int) -> Tensor:
        """Attention of packed tokens within their windows, (all tokens, 3, heads, …) → (all tokens, heads, …)."""
        read: Tensor
        if parts.is_cuda:
            from bertvision.heads.parts.window_attention import attend_windows  # noqa: PLC0415 - needs Triton

            read, _ = attend_windows(parts, bounds, longest)
            return read
        from bertvision.encoder.packed import packed_attention  # noqa: PLC0415 - imports transformers

        query, key, value = parts.permute(1, 2, 0, 3)[:, None]  # each (1, heads, all tokens, …)
        read, _ = packed_attention(self, query, key, value, None, window_bounds=bounds, window_longest=longest)
        return read[0]

    def _attend(self, tokens: Tensor, mask: Tensor) -> Tensor:
        parts = self.attention(tokens).unflatten(-1, (3, self.heads, -1))  # (batch, tokens, 3, heads, …)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, tokens, …)
        read = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :])
        merged: Tensor = self.merge(read.transpose(1, 2).flatten(2))
        return merged


def _normed_map(norm: nn.LayerNorm, linear: nn.Linear, tokens: Tensor) -> Tensor:
    """A norm and a linear map of it; the norm's scale and shift go into the map, and need no sums over all tokens."""
    plain = nn.functional.layer_norm(tokens, norm.weight.shape, eps=norm.eps)
    # a product of matrices would be rounded under autocast
    return nn.functional.linear(
        plain, linear.weight * norm.weight, linear.bias + (linear.weight * norm.bias).sum(dim=1)
    )
