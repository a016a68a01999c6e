"""Scores of adapted layers: one kernel forward and one backward, which read their input once.

In single steps every one of them reads and writes as much as all layers of all tokens have adapted numbers. Needs
Triton, which comes with torch for GPUs; `Adapter` has the formula in single steps.
"""

from collections.abc import Iterator
from typing import Any, cast, final

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version
from typing_extensions import override

SECTOR = 16
"""Columns that a GPU reads from memory as one; rows of a multiple of them share none with their neighbours."""

ROWS, COLUMNS, WARPS = 32, 64, 4
"""Rows, columns and warps of a tile in the forward kernel, for two outputs; with more outputs there are registers for
fewer rows.

A thread reads 8 columns at once. The last tile of a row looks at some that are not there: fewer, the narrower it is.
"""

BACK_ROWS, BACK_COLUMNS, BACK_WARPS, STAGES = 64, 32, 4, 1
"""The same for the backward kernel. With 2 stages or more it would prefetch tiles, which gains nothing here: other
programs run meanwhile."""

MIN_ROWS = 8
"""Fewest rows of a tile."""

MAX_SPAN = 512
"""Most tokens whose gradients a program sums up by itself; torch sums what programs have."""

TANH = tl.constexpr("tanh.approx.f32 $0, $1;")
"""One instruction, wrong by 1/2048 at most, where rounding to bfloat16 is by 1/512."""

INNER, CUBIC = tl.constexpr(0.7978845608028654), tl.constexpr(0.044715)  # √(2/π)
"""GELU is x/2 (1 + tanh(INNER (x + CUBIC x³)))."""


def adapted_scores(states: Tensor, weight: Tensor, bias: Tensor, projection: Tensor) -> Tensor:
    """gelu(h W + b) of every layer of every token, projected by a weight of each layer.

    Args:
        states: (batch, layers, tokens, width), 16 bits; no gradient enters them.
        weight: W, (width, size), or (layers, width, size) if layers have their own.
        bias: b, (size,) or (layers, size).
        projection: (layers, outputs, size).

    Returns:
        (batch, layers, tokens, outputs), float32. There can be one backward pass only: it overwrites what was kept.
    """
    return cast("Tensor", _Adapted.apply(states, weight, bias, projection))


@final
class _Adapted(torch.autograd.Function):
    @staticmethod
    @override
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, projection: Tensor) -> Tensor:
        inner = _multiplied(states, _padded(weight, states.dtype))
        shift, factors = _padded(bias, torch.float32), _padded(projection, torch.float32)
        scores = factors.new_empty(*inner.shape[:3], factors.shape[1])
        rows = _rows(ROWS, factors.shape[1])
        _project[triton.cdiv(inner.shape[2], rows), inner.shape[0] * inner.shape[1]](
            inner, shift, factors, scores, *_sizes(inner, shift, factors), rows, COLUMNS, num_warps=WARPS
        )
        ctx.save_for_backward(states, inner, shift, factors)
        ctx.size, ctx.shared = weight.shape[-1], weight.ndim == 2
        return scores

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor | None, Tensor, Tensor]:
        states, inner, shift, factors = ctx.saved_tensors
        batch, layers, tokens, columns = inner.shape
        rows = _rows(BACK_ROWS, factors.shape[1])
        chunks = triton.cdiv(tokens, MAX_SPAN)
        span = triton.cdiv(triton.cdiv(tokens, max(1, chunks)), rows) * rows
        sums = factors.new_empty(batch, chunks, layers, 1 + factors.shape[1], columns)
        increment_version(inner)  # torch refuses another backward pass: gradients stand there from now on
        _project_backward[triton.cdiv(columns, BACK_COLUMNS), chunks, batch * layers](
            inner,
            shift,
            factors,
            gradients[0],
            sums,
            *_sizes(inner, shift, factors),
            *gradients[0].stride(),
            span,
            rows,
            BACK_COLUMNS,
            STAGES,
            num_warps=BACK_WARPS,
        )
        total = sums.sum(dim=(0, 1))[..., : ctx.size]  # (layers, the bias and every output, size)
        for_bias = total[:, 0].sum(dim=0) if ctx.shared else total[:, 0]
        for_weight = _summed(states, inner, shared=ctx.shared)[..., : ctx.size] if ctx.needs_input_grad[1] else None
        return None, for_weight, for_bias, total[:, 1:]


def _padded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The values in another precision, with zeros behind up to a multiple of `SECTOR`."""
    size = values.shape[-1]
    padded = values.new_zeros(*values.shape[:-1], size + -size % SECTOR, dtype=dtype)
    padded[..., :size] = values
    return padded


def _groups(states: Tensor, inner: Tensor, *, shared: bool) -> Iterator[tuple[Tensor, Tensor]]:
    """The rows of both that meet one weight, (some, rows, numbers), in as few groups as need no copy."""
    if shared and states.is_contiguous():
        yield states.view(1, -1, states.shape[3]), inner.view(1, -1, inner.shape[3])
    else:
        yield from zip(states.unbind(1), inner.unbind(1), strict=True)


def _multiplied(states: Tensor, weight: Tensor) -> Tensor:
    """States times a weight; layer by layer this is faster on a GPU than all layers as a batch."""
    inner = states.new_empty(*states.shape[:3], weight.shape[-1])
    each = weight.expand(states.shape[1], *weight.shape[-2:])
    with torch.autocast(states.device.type, enabled=False):
        for (rows, products), own in zip(_groups(states, inner, shared=weight.ndim == 2), each, strict=False):
            if len(rows) == 1:
                torch.mm(rows[0], own, out=products[0])
            else:
                torch.bmm(rows, own.expand(len(rows), -1, -1), out=products)
    return inner


def _summed(states: Tensor, gradient: Tensor, *, shared: bool) -> Tensor:
    """The gradient of a weight, float32."""
    with torch.autocast(states.device.type, enabled=False):
        each = [_product(rows.mT, upstream) for rows, upstream in _groups(states, gradient, shared=shared)]
    if not shared:
        return torch.stack(each)
    return each[0] if len(each) == 1 else torch.stack(each).sum(dim=0)


def _product(first: Tensor, second: Tensor) -> Tensor:
    """The sum of products of 16-bit matrices, float32."""
    if first.device.type != "cuda":  # where Triton's interpreter runs the kernels
        return torch.bmm(first.float(), second.float()).sum(dim=0)
    if len(first) == 1:
        return torch.mm(first[0], second[0], out_dtype=torch.float32)
    return torch.bmm(first, second, out_dtype=torch.float32).sum(dim=0)


def _sizes(inner: Tensor, shift: Tensor, factors: Tensor) -> tuple[int | bool, ...]:
    """Sizes that both kernels take."""
    _, layers, tokens, columns = inner.shape
    by_instruction = inner.is_cuda and torch.version.hip is None
    return tokens, layers, columns * (shift.ndim - 1), columns, factors.shape[1], by_instruction


def _rows(most: int, outputs: int) -> int:
    """Rows of a tile: every output takes registers for a sum of each of its numbers."""
    return max(MIN_ROWS, most * 2 >> max(1, (outputs - 1).bit_length()))


@triton.jit
def _tanh(x, BY_INSTRUCTION: tl.constexpr):
    if BY_INSTRUCTION:
        return tl.inline_asm_elementwise(TANH, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    return 1 - 2 / (tl.exp(2 * tl.minimum(x, 20.0)) + 1)  # 1 from 10 on


@triton.jit
def _project(
    inner,
    shift,
    factors,
    scores,
    tokens,
    layers,
    shift_layer,
    WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BY_INSTRUCTION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Scores of some tokens in one layer of one window; what is between products and scores is never written.

    `inner` has the products, (batch · layers, tokens, WIDTH), `shift` the biases, which `shift_layer` tells apart, and
    `factors` the projections, (layers, OUTPUTS, WIDTH). `scores` takes the sums over columns, of which every output has
    a tile of its own.
    """
    group = tl.program_id(1).to(tl.int64)
    layer = group % layers
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = group * tokens + tl.program_id(0) * ROWS
    row = tl.arange(0, ROWS)
    inner += first * WIDTH
    scores += first * OUTPUTS
    shift += layer * shift_layer
    factors += layer * OUTPUTS * WIDTH
    totals = ()
    for _ in tl.static_range(OUTPUTS):
        totals = totals + (tl.zeros((ROWS, COLUMNS), dtype=tl.float32),)
    for begin in tl.static_range(0, WIDTH, COLUMNS):
        column = begin + tl.arange(0, COLUMNS)
        real = (token[:, None] < tokens) & (column[None, :] < WIDTH)
        x = tl.load(inner + row[:, None] * WIDTH + column[None, :], mask=real, other=0.0).to(tl.float32)
        x += tl.load(shift + column, mask=column < WIDTH, other=0.0)[None, :]
        twice = x + x * _tanh(x * (INNER + INNER * CUBIC * x * x), BY_INSTRUCTION)
        after = ()
        for output in tl.static_range(OUTPUTS):
            own = tl.load(factors + output * WIDTH + column, mask=column < WIDTH, other=0.0)
            after = after + (totals[output] + twice * own[None, :],)
        totals = after
    for output in tl.static_range(OUTPUTS):
        tl.store(scores + row * OUTPUTS + output, 0.5 * tl.sum(totals[output], axis=1), mask=token < tokens)


@triton.jit
def _project_backward(
    inner,
    shift,
    factors,
    upstream,
    sums,
    tokens,
    layers,
    shift_layer,
    WIDTH: tl.constexpr,
    OUTPUTS: tl.constexpr,
    BY_INSTRUCTION: tl.constexpr,
    upstream_batch,
    upstream_layer,
    upstream_token,
    upstream_output,
    span,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """The backward kernel for some columns of one layer of one window, over `span` tokens.

    `upstream` has the gradients of the scores, with its strides. Those of the products overwrite the products in
    `inner`. `sums` takes what these tokens add to the gradients of the bias and, below it, of each projection.

    GELU is half of `twice`, and `slope` is how `twice` grows with x; the halves are in `halves` and in the last line.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    group = tl.program_id(2).to(tl.int64)
    layer = group % layers
    first = tl.program_id(1).to(tl.int64) * span
    inner += (group * tokens + first) * WIDTH
    upstream += group // layers * upstream_batch + layer * upstream_layer + first * upstream_token
    shift += layer * shift_layer
    factors += layer * OUTPUTS * WIDTH
    bias = tl.load(shift + column, mask=column < WIDTH, other=0.0)[None, :]
    halves = ()
    totals = (tl.zeros((ROWS, COLUMNS), dtype=tl.float32),)
    for output in tl.static_range(OUTPUTS):
        own = tl.load(factors + output * WIDTH + column, mask=column < WIDTH, other=0.0)
        halves = halves + (0.5 * own[None, :],)
        totals = totals + (tl.zeros((ROWS, COLUMNS), dtype=tl.float32),)
    rest = tokens - tl.program_id(1) * span
    for begin in tl.range(0, span, ROWS, num_stages=STAGES):
        token = begin + tl.arange(0, ROWS)
        real = (token[:, None] < rest) & (column[None, :] < WIDTH)
        places = inner + token[:, None] * WIDTH + column[None, :]
        x = tl.load(places, mask=real, other=0.0).to(tl.float32) + bias
        square = x * x
        tanh = _tanh(x * (INNER + INNER * CUBIC * square), BY_INSTRUCTION)
        plus = 1 + tanh
        twice = x * plus
        slope = plus + (x - x * tanh * tanh) * (INNER + 3 * INNER * CUBIC * square)  # of `twice`
        whole = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        after = ()
        for output in tl.static_range(OUTPUTS):
            one = tl.load(upstream + token * upstream_token + output * upstream_output, mask=token < rest, other=0.0)[
                :, None
            ]
            whole += one * halves[output]
            after = after + (totals[1 + output] + one * twice,)
        gradient = whole * slope
        totals = (totals[0] + gradient,) + after
        tl.store(places, gradient.to(inner.dtype.element_ty), mask=real)
    row = (group // layers * tl.num_programs(1) + tl.program_id(1)) * layers + layer
    sums += row * (1 + OUTPUTS) * WIDTH + column
    tl.store(sums, tl.sum(totals[0], axis=0), mask=column < WIDTH)
    for output in tl.static_range(OUTPUTS):
        tl.store(sums + (1 + output) * WIDTH, 0.5 * tl.sum(totals[1 + output], axis=0), mask=column < WIDTH)
