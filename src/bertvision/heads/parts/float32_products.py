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
"""A GPU's fast products take multiples of so many columns."""

MIN_CAPABILITY = (8, 0)
"""Lowest compute capability of a GPU that Triton compiles for."""

MAX_SETS = 64
"""Sets of weights that a kernel of ours mixes at once; more would not fit into what a GPU's processor shares."""


def has_kernels(states: Tensor, sets: int = 1) -> bool:
    """Whether there is a kernel of our own that mixes the layers of these by some sets of weights.

    That is for 16 bits on a GPU that Triton knows, where there are Triton and a C compiler, which it begins with.
    """
    narrow = states.dtype in {torch.bfloat16, torch.float16}
    if not (states.is_cuda and narrow and sets <= MAX_SETS and _has_triton()):
        return False
    return torch.cuda.get_device_capability(states.device) >= MIN_CAPABILITY


@cache
def _has_triton() -> bool:
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return find_spec("triton") is not None and compiler is not None


def float32_product(rows: Tensor, weight: Tensor) -> Tensor:
    """Rows times the transpose of a weight, group by group, in float32.

    Rows of 16 bits are never widened: that would write twice their bytes, and keep them. The weight is taken as the sum
    of two 16-bit numbers instead, which costs nothing, since so few columns have to be padded anyway.

    Args:
        rows: (groups, rows, width).
        weight: (groups, outputs, width), float32; if it is less wide, the last numbers of a row do not count.

    Returns:
        (groups, rows, outputs), float32.
    """
    with torch.autocast(rows.device.type, enabled=False):
        if rows.dtype == torch.float32:
            return torch.bmm(rows[..., : weight.shape[2]], weight.float().transpose(1, 2))
        return cast("Tensor", _Float32Product.apply(rows, weight.float()))  # type: ignore[no-untyped-call]


def layer_scores(states: Tensor, queries: Tensor) -> Tensor:
    """How well every layer of every token agrees with some vectors, in float32.

    Args:
        states: (batch, layers, tokens, width).
        queries: (queries, width).

    Returns:
        (batch, layers, tokens, queries).
    """
    # group by group: layers that are a part of all would be copied to stand in one matrix
    return float32_product(states.flatten(1, 2), _repeated(queries, states.shape[0])).reshape(
        *states.shape[:3], len(queries)
    )


def layer_maps(states: Tensor, weight: Tensor) -> Tensor:
    """A linear map of every layer by a weight of its own, in float32.

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
        both = _rounded(weight, columns, rows.shape[2], rows.dtype)  # rounded, and below it what rounding took away
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
        # zeros stand where `both` has what rounding took away
        gradient = _rounded(gradients[0].transpose(1, 2), both.shape[1], rows.shape[1], rows.dtype)
        for_rows = torch.bmm(gradient.transpose(1, 2), both) if ctx.needs_input_grad[0] else None
        return for_rows, _product(gradient, rows)[:, :outputs, :width]


def _rounded(matrix: Tensor, columns: int, numbers: int, dtype: torch.dtype) -> Tensor:
    """(groups, outputs, numbers) → (groups, columns, numbers): rounded, and zeros where there is nothing."""
    rounded = matrix.new_zeros(len(matrix), columns, numbers, dtype=dtype)
    rounded[:, : matrix.shape[1], : matrix.shape[2]] = matrix
    return rounded


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Two 16-bit matrices → a float32 one."""
    if first.device.type == "cuda":
        return torch.bmm(first, second, out_dtype=torch.float32)
    return torch.bmm(first.float(), second.float())
