"""What follows an adapter's product, in one kernel each way: bias, GELU and the projection of every layer.

In single steps the adapted layers would be written and read nine times; here they are read once, and once more for
their gradient. Needs Triton, which comes with torch for GPUs; `Adapter` has the formula in single steps.
"""

from typing import Any, cast, final

import torch
import triton
import triton.language as tl
from torch import Tensor
from typing_extensions import override

ROWS, ROWS_BACK, COLUMNS, OUTPUTS = 64, 32, 64, 16
"""Of a tile, forwards and back, as large as a GPU's registers allow; its products have no fewer than 16 outputs."""

PROGRAMS = 2112
"""That keep a GPU busy: some for every one of its processors."""


def adapted_scores(inner: Tensor, bias: Tensor, weight: Tensor) -> Tensor:
    """The projection of gelu(inner + bias) by a weight for every layer, in float32.

    Args:
        inner: (batch, layers, tokens, columns), 16 bits.
        bias: (layers, size), float32; columns beyond them count nothing.
        weight: (layers, outputs, size), float32.

    Returns:
        (batch, layers, tokens, outputs).
    """
    return cast("Tensor", _AdaptedScores.apply(inner, bias, weight))


@final
class _AdaptedScores(torch.autograd.Function):
    @staticmethod
    @override
    def forward(ctx: Any, inner: Tensor, bias: Tensor, weight: Tensor) -> Tensor:
        inner = inner.contiguous()
        batch, layers, tokens, _ = inner.shape
        scores = inner.new_empty(batch, layers, tokens, weight.shape[1], dtype=torch.float32)
        grid = (triton.cdiv(tokens, ROWS), batch * layers)
        _score[grid](inner, bias, weight, scores, *_sizes(inner, bias, weight), ROWS, COLUMNS)
        ctx.save_for_backward(inner, bias, weight)
        return scores

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inner, bias, weight = ctx.saved_tensors
        (gradient,) = gradients
        batch, layers, tokens, columns = inner.shape
        chunks, blocks = triton.cdiv(columns, COLUMNS), triton.cdiv(tokens, ROWS_BACK)
        parts = min(blocks, triton.cdiv(PROGRAMS, batch * layers * chunks))
        for_inner = torch.empty_like(inner)
        for_bias = bias.new_empty(batch, layers, parts, bias.shape[1])
        for_weight = weight.new_empty(batch, layers, parts, *weight.shape[1:])
        _learn[parts, batch * layers, chunks](
            *(inner, bias, weight, gradient, for_inner, for_bias, for_weight),
            *gradient.stride(),
            *_sizes(inner, bias, weight),
            *(ROWS_BACK, COLUMNS),
        )
        return for_inner, for_bias.sum(dim=(0, 2)), for_weight.sum(dim=(0, 2))


def _sizes(inner: Tensor, bias: Tensor, weight: Tensor) -> tuple[int, ...]:
    """What both kernels end with."""
    outputs = weight.shape[1]
    padded = max(OUTPUTS, triton.next_power_of_2(outputs))
    _, layers, tokens, columns = inner.shape
    strides = *bias.stride(), *weight.stride()
    return layers, tokens, outputs, *strides, columns, bias.shape[1], padded


@triton.jit
def _bent(inner):
    """GELU by tanh, and its slope."""
    share = tl.sigmoid(1.5957691216057308 * (inner + 0.044715 * inner * inner * inner))
    slope = share + inner * share * (1 - share) * 1.5957691216057308 * (1 + 0.134145 * inner * inner)
    return inner * share, slope


@triton.jit
def _score(
    inner,
    bias,
    weight,
    scores,
    layers,
    tokens,
    outputs,
    bias_layer,
    bias_column,
    weight_layer,
    weight_output,
    weight_column,
    columns: tl.constexpr,
    size: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    group = tl.program_id(1).to(tl.int64)
    layer = group % layers
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    output = tl.arange(0, OUTPUTS)
    inner += group * tokens * columns
    total = tl.zeros((ROWS, OUTPUTS), dtype=tl.float32)
    for begin in range(0, columns, COLUMNS):
        column = begin + tl.arange(0, COLUMNS)
        real = (row[:, None] < tokens) & (column[None, :] < columns)
        own = tl.load(inner + row[:, None] * columns + column[None, :], mask=real, other=0.0)
        shift = tl.load(bias + layer * bias_layer + column * bias_column, mask=column < size, other=0.0)
        bent, _ = _bent(own.to(tl.float32) + shift[None, :])
        bent = bent.to(own.dtype)
        places = weight + layer * weight_layer + output[None, :] * weight_output + column[:, None] * weight_column
        wide = tl.load(places, mask=(output[None, :] < outputs) & (column[:, None] < size), other=0.0)
        rounded = wide.to(own.dtype)
        rest = (wide - rounded.to(tl.float32)).to(own.dtype)  # what rounding took away
        total += tl.dot(bent, rounded) + tl.dot(bent, rest)
    places = scores + group * tokens * outputs + row[:, None] * outputs + output[None, :]
    tl.store(places, total, mask=(row[:, None] < tokens) & (output[None, :] < outputs))


@triton.jit
def _learn(
    inner,
    bias,
    weight,
    gradient,
    for_inner,
    for_bias,
    for_weight,
    gradient_batch,
    gradient_layer,
    gradient_token,
    gradient_output,
    layers,
    tokens,
    outputs,
    bias_layer,
    bias_column,
    weight_layer,
    weight_output,
    weight_column,
    columns: tl.constexpr,
    size: tl.constexpr,
    OUTPUTS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    part, parts = tl.program_id(0), tl.num_programs(0)
    group = tl.program_id(1).to(tl.int64)
    layer = group % layers
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    output = tl.arange(0, OUTPUTS)
    inner += group * tokens * columns
    for_inner += group * tokens * columns
    gradient += group // layers * gradient_batch + layer * gradient_layer
    shift = tl.load(bias + layer * bias_layer + column * bias_column, mask=column < size, other=0.0)
    counted = (output[:, None] < outputs) & (column[None, :] < size)
    places = weight + layer * weight_layer + output[:, None] * weight_output + column[None, :] * weight_column
    rounded = tl.load(places, mask=counted, other=0.0).to(inner.dtype.element_ty)
    bias_sum = tl.zeros((COLUMNS,), dtype=tl.float32)
    weight_sum = tl.zeros((OUTPUTS, COLUMNS), dtype=tl.float32)
    for begin in range(part * ROWS, tokens, parts * ROWS):
        row = begin + tl.arange(0, ROWS)
        real = (row[:, None] < tokens) & (column[None, :] < columns)
        own = tl.load(inner + row[:, None] * columns + column[None, :], mask=real, other=0.0)
        asked = gradient + row[:, None].to(tl.int64) * gradient_token + output[None, :] * gradient_output
        above = tl.load(asked, mask=(row[:, None] < tokens) & (output[None, :] < outputs), other=0.0).to(own.dtype)
        bent, slope = _bent(own.to(tl.float32) + shift[None, :])
        change = tl.dot(above, rounded) * slope
        tl.store(for_inner + row[:, None] * columns + column[None, :], change.to(own.dtype), mask=real)
        bias_sum += tl.sum(change, axis=0)
        weight_sum += tl.dot(tl.trans(above), bent.to(own.dtype))
    place = group * parts + part
    tl.store(for_bias + place * size + column, bias_sum, mask=column < size)
    tl.store(for_weight + (place * outputs + output[:, None]) * size + column[None, :], weight_sum, mask=counted)
