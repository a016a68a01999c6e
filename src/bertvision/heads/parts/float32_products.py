"""Matrix products with a float32 result, whatever the inputs are: scores rounded to bfloat16's 8 bits would tie."""

import os
import shutil
from functools import cache
from importlib.util import find_spec
from typing import Any, cast, final

import torch
from torch import Tensor
from typing_extensions import override

ALIGNED = 8
"""Tensor cores want matrices whose number of columns is a multiple of this."""

MIN_CAPABILITY = (8, 0)
"""Lowest compute capability of a GPU that Triton compiles for."""

MAX_GRID = 65535
"""Most programs on the second axis of a CUDA grid."""

MAX_SETS = 64
"""Most sets of layer weights that our Triton kernel takes; more would not fit into the GPU's shared memory."""


def has_kernels(states: Tensor, sets: int = 1) -> bool:
    """Whether our Triton kernels can be used for these states, with so many sets of layer weights.

    They need 16-bit states on a GPU that Triton supports, Triton itself, and the C compiler that it calls. The first
    axis of the states becomes one of a CUDA grid.
    """
    narrow = states.dtype in {torch.bfloat16, torch.float16}
    if not (states.is_cuda and narrow and sets <= MAX_SETS and _has_triton()):
        return False
    if len(states) > MAX_GRID:  # last: a condition on the batch size would fix that size in an exported graph
        return False
    return torch.cuda.get_device_capability(states.device) >= MIN_CAPABILITY


@cache
def _has_triton() -> bool:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return find_spec("triton") is not None and compiler is not None


def float32_product(rows: Tensor, weight: Tensor) -> Tensor:
    """Batched product `rows @ weight.mT`, accumulated and returned in float32.

    16-bit rows are not converted to float32: that would write and keep twice as many bytes. Instead the float32 weight
    is split into the sum of two 16-bit matrices, which costs nothing: its few columns would have to be padded anyway.

    Args:
        rows: (groups, rows, width).
        weight: (groups, outputs, width), float32; if it is narrower than the rows, their last columns are ignored.

    Returns:
        (groups, rows, outputs), float32.
    """
    with torch.autocast(rows.device.type, enabled=False):
        if rows.dtype == torch.float32:
            return torch.bmm(rows[..., : weight.shape[2]], weight.float().transpose(1, 2))
        return cast("Tensor", _Float32Product.apply(rows, weight.float()))  # type: ignore[no-untyped-call]


def layer_scores(states: Tensor, queries: Tensor) -> Tensor:
    """Dot products of every layer of every token with some vectors, in float32.

    Args:
        states: (batch, layers, tokens, width).
        queries: (queries, width).

    Returns:
        (batch, layers, tokens, queries).
    """
    # one group per example: a slice of the layers is not contiguous, so flattening the batch, too, would copy it
    return float32_product(states.flatten(1, 2), _repeated(queries, states.shape[0])).reshape(
        *states.shape[:3], len(queries)
    )


def layer_maps(states: Tensor, weight: Tensor) -> Tensor:
    """A linear map of every layer, each with its own weight, in float32.

    Args:
        states: (batch, layers, tokens, width).
        weight: (layers, outputs, width).

    Returns:
        (batch, layers, tokens, outputs).
    """
    each = _repeated(weight, states.shape[0]).flatten(0, 1)
    return float32_product(states.flatten(0, 1), each).reshape(*states.shape[:3], weight.shape[1])


def _repeated(weight: Tensor, batch: int) -> Tensor:
    return weight[None] if batch == 1 else weight.expand(batch, *weight.shape)


@final
class _Float32Product(torch.autograd.Function):
    @staticmethod
    @override
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        outputs, width = weight.shape[1:]
        columns = 2 * outputs + -2 * outputs % ALIGNED
        both = _rounded(weight, columns, rows.shape[2], rows.dtype)  # the rounded weight, below it the rounding error
        torch.sub(weight, both[:, :outputs, :width], out=both[:, outputs : 2 * outputs, :width])
        products = _product(rows, both.transpose(1, 2))
        ctx.save_for_backward(rows, both)
        ctx.shape = outputs, width
        return products[..., :outputs] + products[..., outputs : 2 * outputs]

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        rows, both = ctx.saved_tensors
        outputs, width = ctx.shape
        # zeros where `both` has the rounding error; rows first, since a GPU is slow where matrices begin unaligned
        gradient = _rounded(gradients[0], rows.shape[1], both.shape[1], rows.dtype)
        for_rows = torch.bmm(gradient, both) if ctx.needs_input_grad[0] else None
        return for_rows, _product(gradient.mT, rows)[:, :outputs, :width]


def _rounded(matrix: Tensor, rows: int, columns: int, dtype: torch.dtype) -> Tensor:
    """Convert to `dtype` and pad with zeros: (groups, …, …) → (groups, rows, columns)."""
    rounded = matrix.new_zeros(len(matrix), rows, columns, dtype=dtype)
    rounded[:, : matrix.shape[1], : matrix.shape[2]] = matrix
    return rounded


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Batched product of 16-bit matrices, accumulated in float32."""
    if first.device.type == "cuda":
        return torch.bmm(first, second, out_dtype=torch.float32)
    return torch.bmm(first.float(), second.float())
