"""Mixtures of the layers of every token, in one kernel forward and one backward: matrix products would be tiny.

Needs Triton, which comes with torch for GPUs; `EncoderAttention` has the formula in single steps.
"""

from typing import Any, cast, final

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from typing_extensions import override

COLUMNS, MIN_TILE = 256, 16
"""Columns of a tile, and its fewest rows: a GPU's products have no fewer than 16 rows and columns."""


def layer_mixtures(weights: Tensor, states: Tensor, heads: int, factor: float = 1.0) -> Tensor:
    """The layers of every token, mixed by some sets of weights.

    Args:
        weights: (batch, layers, tokens, outputs · heads); see `has_kernels` for how many sets there may be.
        states: (batch, layers, tokens, width), 16 bits; no gradient enters them.
        heads: how many there are.
        factor: of all weights, which are rounded to 16 bits; the factor is not.

    Returns:
        (heads, batch · tokens · outputs, width), as products by a matrix of every head want it.
    """
    return cast("Tensor", _Mixtures.apply(weights, states, heads, factor))


@final
class _Mixtures(torch.autograd.Function):
    @staticmethod
    @override
    def forward(ctx: Any, weights: Tensor, states: Tensor, heads: int, factor: float) -> Tensor:
        batch, _, tokens, sets = weights.shape
        mixed = states.new_empty(heads, batch * tokens * (sets // heads), states.shape[3])
        _mix[tokens, batch](weights, states, mixed, factor, *_sizes(weights, states, heads))
        ctx.save_for_backward(weights, states)
        ctx.heads, ctx.factor = heads, factor
        return mixed

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        weights, states = ctx.saved_tensors
        batch, _, tokens, _ = weights.shape
        for_weights = torch.empty_like(weights)
        _mix_backward[tokens, batch](
            for_weights, states, gradients[0].contiguous(), ctx.factor, *_sizes(for_weights, states, ctx.heads)
        )
        return for_weights, None, None, None


def _sizes(weights: Tensor, states: Tensor, heads: int) -> tuple[int, ...]:
    """The last arguments of both kernels."""
    _, layers, _, sets = weights.shape
    rows, columns = (max(MIN_TILE, triton.next_power_of_2(size)) for size in (sets, layers))
    return layers, sets, heads, states.shape[3], *weights.stride(), *states.stride(), rows, columns, COLUMNS


@triton.jit
def _rows(one, sets, heads):
    """Where a program's mixtures stand among all of them: by head, then by window, token and output."""
    token, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    tokens, outputs = tl.num_programs(0), sets // heads
    row = (batch * tokens + token) * outputs + one // heads
    return row + one % heads * (tl.num_programs(1).to(tl.int64) * tokens * outputs)


@triton.jit
def _mix(
    weights,
    states,
    mixed,
    factor,
    layers,
    sets,
    heads,
    width,
    weight_batch,
    weight_layer,
    weight_token,
    weight_set,
    state_batch,
    state_layer,
    state_token,
    state_column,
    SETS: tl.constexpr,
    LAYERS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The layers of one token, mixed by all sets of weights: a small product for each tile of columns.

    `weights` and `states` come with their strides, and `mixed` takes the mixtures. SETS and LAYERS are as many as a
    product has; those beyond the real ones count for nothing.
    """
    token, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    one, layer = tl.arange(0, SETS), tl.arange(0, LAYERS).to(tl.int64)
    places = weights + batch * weight_batch + token * weight_token
    places += layer[None, :] * weight_layer + one[:, None] * weight_set
    shares = tl.load(places, mask=(one[:, None] < sets) & (layer[None, :] < layers), other=0.0)
    shares = shares.to(states.dtype.element_ty)
    row = _rows(one, sets, heads)
    states += batch * state_batch + token * state_token
    for begin in range(0, width, COLUMNS):
        column = begin + tl.arange(0, COLUMNS)
        real = (layer[:, None] < layers) & (column[None, :] < width)
        own = tl.load(states + layer[:, None] * state_layer + column[None, :] * state_column, mask=real, other=0.0)
        total = (tl.dot(shares, own) * factor).to(own.dtype)
        real = (one[:, None] < sets) & (column[None, :] < width)
        tl.store(mixed + row[:, None] * width + column[None, :], total, mask=real)


@triton.jit
def _mix_backward(
    weights,
    states,
    mixed,
    factor,
    layers,
    sets,
    heads,
    width,
    weight_batch,
    weight_layer,
    weight_token,
    weight_set,
    state_batch,
    state_layer,
    state_token,
    state_column,
    SETS: tl.constexpr,
    LAYERS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The backward kernel: products of each layer of one token with the gradient of each mixture, which is in `mixed`.

    `weights` takes the gradients of the weights. They are summed up over all columns before they are written.
    """
    token, batch = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    one, layer = tl.arange(0, SETS), tl.arange(0, LAYERS).to(tl.int64)
    row = _rows(one, sets, heads)
    states += batch * state_batch + token * state_token
    total = tl.zeros((SETS, LAYERS), dtype=tl.float32)
    for begin in range(0, width, COLUMNS):
        column = begin + tl.arange(0, COLUMNS)
        real = (layer[:, None] < layers) & (column[None, :] < width)
        own = tl.load(states + layer[:, None] * state_layer + column[None, :] * state_column, mask=real, other=0.0)
        real = (one[:, None] < sets) & (column[None, :] < width)
        upstream = tl.load(mixed + row[:, None] * width + column[None, :], mask=real, other=0.0)
        total += tl.dot(upstream, tl.trans(own))
    places = weights + batch * weight_batch + token * weight_token
    places += layer[None, :] * weight_layer + one[:, None] * weight_set
    tl.store(places, total * factor, mask=(one[:, None] < sets) & (layer[None, :] < layers))
