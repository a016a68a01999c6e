"""Attention within windows packed end to end; for narrow heads and short windows faster than torch's kernel for them.

Queries, keys and values stay side by side as one product leaves them, and so do their gradients: nothing is copied.
Needs Triton, which comes with torch for GPUs.
"""

import math
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

MIN_COLUMNS = 16
"""A GPU's products have no fewer columns."""

NARROW = 64
"""Attention heads of up to so many numbers leave registers for tiles of `ROWS` rows; wider ones for half of them."""

ROWS, WARPS = 64, 4
"""Tokens of a tile, and warps of a program."""

PER_LN_2 = tl.constexpr(1 / math.log(2))
"""Times this, exponents of e are exponents of 2."""


@torch.library.custom_op("bertvision::attend_windows", mutates_args=())
def attend_windows(parts: Tensor, bounds: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Attention of every token to the tokens of its window, without dropout.

    Args:
        parts: (tokens, 3, heads, size), 16 bits: queries, keys and values.
        bounds: (windows + 1,) int32, where each window begins, and the end; every token belongs to one.
        longest: no window has more tokens; what else there were would not be written.

    Returns:
        What is read, (tokens, heads, size), and for the backward pass (tokens, heads) the logarithms, to base 2, of the
        sums that attention divides by.
    """
    parts, bounds = parts.contiguous(), bounds.contiguous()
    tokens, _, heads, size = parts.shape
    read, sums = parts.new_empty(tokens, heads, size), parts.new_empty(tokens, heads, dtype=torch.float32)
    rows, wide = _tile(size)
    tiles = triton.cdiv(longest, rows)
    _attend[(len(bounds) - 1) * tiles, heads](
        parts, bounds, read, sums, size**-0.5, tiles, heads, size, wide, rows, num_warps=WARPS
    )
    return read, sums


@torch.library.custom_op("bertvision::attend_windows_backward", mutates_args=())
def _attend_windows_backward(
    parts: Tensor, bounds: Tensor, read: Tensor, sums: Tensor, upstream: Tensor, longest: int
) -> Tensor:
    """The gradient of `parts` from that of what is read."""
    parts, bounds, upstream = parts.contiguous(), bounds.contiguous(), upstream.contiguous()
    _, _, heads, size = parts.shape
    gradient = torch.empty_like(parts)
    rows, wide = _tile(size)
    tiles = triton.cdiv(longest, rows)
    _attend_backward[(len(bounds) - 1) * tiles, heads](
        parts, bounds, read, sums, upstream, gradient, size**-0.5, tiles, heads, size, wide, rows, num_warps=WARPS
    )
    return gradient


@attend_windows.register_fake
def _(parts: Tensor, _bounds: Tensor, _longest: int) -> tuple[Tensor, Tensor]:
    tokens, _, heads, size = parts.shape
    return parts.new_empty(tokens, heads, size), parts.new_empty(tokens, heads, dtype=torch.float32)


@_attend_windows_backward.register_fake
def _(parts: Tensor, *_others: object) -> Tensor:
    return parts.new_empty(parts.shape)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: tuple[Tensor, Tensor]) -> None:  # noqa: ANN401 - torch's own
    parts, bounds, longest = inputs
    ctx.longest = longest
    ctx.save_for_backward(parts, bounds, *output)
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, upstream: Tensor, _sums: Tensor | None) -> tuple[Tensor, None, None]:  # noqa: ANN401 - torch's own
    gradient = _attend_windows_backward(*ctx.saved_tensors, upstream, ctx.longest)
    return cast("Tensor", gradient), None, None


attend_windows.register_autograd(_backward, setup_context=_keep)


def _tile(size: int) -> tuple[int, int]:
    """Rows and columns of a tile."""
    wide = max(MIN_COLUMNS, triton.next_power_of_2(size))
    return (ROWS if wide <= NARROW else ROWS // 2), wide


@triton.jit
def _rows_of(parts, first, length, stride, SIZE: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr):
    """A tile of rows from `first` on; zeros where a window or a head ends."""
    row, column = first + tl.arange(0, ROWS), tl.arange(0, WIDE)
    real = (row[:, None] < length) & (column[None, :] < SIZE)
    return tl.load(parts + row[:, None] * stride + column[None, :], mask=real, other=0.0)


@triton.jit
def _attend(
    parts,
    bounds,
    read,
    sums,
    scale,
    tiles,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """What a tile of one window's tokens reads, in one head; each window has `tiles`, some of them empty."""
    window, first, head = tl.program_id(0) // tiles, tl.program_id(0) % tiles * ROWS, tl.program_id(1)
    begin = tl.load(bounds + window).to(tl.int64)
    length = (tl.load(bounds + window + 1) - begin).to(tl.int32)
    if first < length:
        parts += begin * (3 * HEADS * SIZE) + head * SIZE
        row, column = tl.arange(0, ROWS), tl.arange(0, WIDE)
        query = _rows_of(parts, first, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
        most = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((ROWS,), dtype=tl.float32)
        mixed = tl.zeros((ROWS, WIDE), dtype=tl.float32)
        for other in range(0, length, ROWS):
            key = _rows_of(parts + HEADS * SIZE, other, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
            value = _rows_of(parts + 2 * HEADS * SIZE, other, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
            score = tl.where(
                (other + row)[None, :] < length, tl.dot(query, tl.trans(key)) * (scale * PER_LN_2), float("-inf")
            )
            higher = tl.maximum(most, tl.max(score, axis=1))
            weight, fade = tl.exp2(score - higher[:, None]), tl.exp2(most - higher)
            total = total * fade + tl.sum(weight, axis=1)
            mixed = mixed * fade[:, None] + tl.dot(weight.to(value.dtype), value)
            most = higher
        real = first + row < length
        read += (begin + first) * (HEADS * SIZE) + head * SIZE
        places = read + row[:, None] * (HEADS * SIZE) + column[None, :]
        mixed = (mixed / total[:, None]).to(read.dtype.element_ty)
        tl.store(places, mixed, mask=real[:, None] & (column[None, :] < SIZE))
        tl.store(sums + (begin + first + row) * HEADS + head, most + tl.log2(total), mask=real)


@triton.jit
def _attend_backward(
    parts,
    bounds,
    read,
    sums,
    upstream,
    gradient,
    scale,
    tiles,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDE: tl.constexpr,
    ROWS: tl.constexpr,
):
    """The gradients of the queries, keys and values of a tile of one window's tokens, in one head.

    The tile is compared with every tile of the window twice: its queries with their keys, and its keys with their
    queries. So programs share no sums, and results do not depend on their order.
    """
    window, first, head = tl.program_id(0) // tiles, tl.program_id(0) % tiles * ROWS, tl.program_id(1)
    begin = tl.load(bounds + window).to(tl.int64)
    length = (tl.load(bounds + window + 1) - begin).to(tl.int32)
    if first < length:
        parts += begin * (3 * HEADS * SIZE) + head * SIZE
        read += begin * (HEADS * SIZE) + head * SIZE
        upstream += begin * (HEADS * SIZE) + head * SIZE
        sums += begin * HEADS + head
        row, column = tl.arange(0, ROWS), tl.arange(0, WIDE)
        exponent = scale * PER_LN_2
        query = _rows_of(parts, first, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
        key = _rows_of(parts + HEADS * SIZE, first, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
        value = _rows_of(parts + 2 * HEADS * SIZE, first, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
        above = _rows_of(upstream, first, length, HEADS * SIZE, SIZE, WIDE, ROWS)
        own = _rows_of(read, first, length, HEADS * SIZE, SIZE, WIDE, ROWS)
        level = tl.sum(above.to(tl.float32) * own.to(tl.float32), axis=1)
        # beyond the window's end: e to the power of -infinity, no weight
        logarithm = tl.load(sums + (first + row) * HEADS, mask=first + row < length, other=float("inf"))
        for_query = tl.zeros((ROWS, WIDE), dtype=tl.float32)
        for_key = tl.zeros((ROWS, WIDE), dtype=tl.float32)
        for_value = tl.zeros((ROWS, WIDE), dtype=tl.float32)
        for other in range(0, length, ROWS):
            theirs = _rows_of(parts + HEADS * SIZE, other, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
            values = _rows_of(parts + 2 * HEADS * SIZE, other, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
            score = tl.dot(query, tl.trans(theirs)) * exponent - logarithm[:, None]
            weight = tl.exp2(tl.where((other + row)[None, :] < length, score, float("-inf")))
            change = weight * (tl.dot(above, tl.trans(values)) - level[:, None])
            for_query += tl.dot(change.to(theirs.dtype), theirs)

            queries = _rows_of(parts, other, length, 3 * HEADS * SIZE, SIZE, WIDE, ROWS)
            aboves = _rows_of(upstream, other, length, HEADS * SIZE, SIZE, WIDE, ROWS)
            owns = _rows_of(read, other, length, HEADS * SIZE, SIZE, WIDE, ROWS)
            levels = tl.sum(aboves.to(tl.float32) * owns.to(tl.float32), axis=1)
            logarithms = tl.load(sums + (other + row) * HEADS, mask=other + row < length, other=float("inf"))
            weight = tl.exp2(tl.dot(key, tl.trans(queries)) * exponent - logarithms[None, :])
            for_value += tl.dot(weight.to(aboves.dtype), aboves)
            change = weight * (tl.dot(value, tl.trans(aboves)) - levels[None, :])
            for_key += tl.dot(change.to(queries.dtype), queries)
        gradient += (begin + first) * (3 * HEADS * SIZE) + head * SIZE
        places = gradient + row[:, None] * (3 * HEADS * SIZE) + column[None, :]
        real = (first + row < length)[:, None] & (column[None, :] < SIZE)
        tl.store(places, (for_query * scale).to(gradient.dtype.element_ty), mask=real)
        tl.store(places + HEADS * SIZE, (for_key * scale).to(gradient.dtype.element_ty), mask=real)
        tl.store(places + 2 * HEADS * SIZE, for_value.to(gradient.dtype.element_ty), mask=real)
