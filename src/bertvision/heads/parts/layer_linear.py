"""A linear map of every layer, each with its own weight and bias, into one tensor."""

from collections.abc import Sequence
from typing import Any, cast, final

import torch
from torch import Tensor, nn
from typing_extensions import override


def layer_linear(states: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """Apply to every layer its own linear map; no gradient flows into the states.

    Args:
        states: (batch, layers, tokens, width).
        weights: of each layer, (size, width).
        biases: of each layer, (size,).

    Returns:
        (batch, layers, tokens, size).
    """
    # the type is checked first: a condition on the batch size would fix that size in an exported graph
    if states.dtype not in {torch.bfloat16, torch.float16} or len(states) > 1:
        layers = zip(states.unbind(dim=1), weights, biases, strict=True)
        return torch.stack([nn.functional.linear(layer, weight, bias) for layer, weight, bias in layers], dim=1)
    # packed windows of 16 bits: `torch.stack` would write the result a second time
    stacked = torch.stack([*weights]).to(states.dtype), torch.stack([*biases]).to(states.dtype)
    return cast("Tensor", _LayerLinear.apply(states[0], *stacked))[None]  # type: ignore[no-untyped-call]


@final
class _LayerLinear(torch.autograd.Function):
    """One product per layer, which is faster than one batched product."""

    @staticmethod
    @override
    def forward(ctx: Any, states: Tensor, weights: Tensor, biases: Tensor) -> Tensor:
        ctx.save_for_backward(states)
        products = states.new_empty(*states.shape[:2], weights.shape[1])  # (layers, tokens, size)
        for product, layer, weight, bias in zip(products, states, weights, biases, strict=True):
            torch.addmm(bias, layer, weight.T, out=product)
        return products

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        (states,), (gradient,) = ctx.saved_tensors, gradients
        weights = gradient.new_empty(len(states), gradient.shape[2], states.shape[2])  # (layers, size, width)
        for product, layer, each in zip(weights, states, gradient, strict=True):
            torch.mm(each.T, layer, out=product)
        return None, weights, gradient.sum(dim=1)
