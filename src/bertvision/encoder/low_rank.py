"""A faster forward and backward pass for PEFT's LoRA layers, of few matrix products with fused scaling and addition.

PEFT multiplies, scales and adds in separate operations, each with a result in memory and a backward step of its own.
A GPU computes such small operations faster than they can be launched, and waits.
"""

from typing import Any, final

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from typing_extensions import override


@final
class LowRankProduct(torch.autograd.Function):
    """x Wᵀ + b + scale · (x Aᵀ) Bᵀ, with gradients for A, B and, where needed, x, but not for W and b."""

    @staticmethod
    @override
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Forward pass; keeps x and x Aᵀ for the backward pass.

        Args:
            ctx: of autograd.
            args: x (…, inputs), W (outputs, inputs), b (outputs,) or None, A (rank, inputs), B (outputs, rank), scale.
            kwargs: none.
        """
        states, weight, bias, down, up, scale = args
        rows = states.reshape(-1, states.shape[-1])
        narrow = rows @ down.T
        ctx.save_for_backward(rows, narrow, weight, down, up)
        ctx.scale, ctx.shape = scale, states.shape
        result = nn.functional.linear(rows, weight, bias).addmm_(narrow, up.T, alpha=scale)
        return result.view(*states.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, ...]:
        """The gradients of x, A and B; None for the other inputs."""
        rows, narrow, weight, down, up = ctx.saved_tensors
        upstream = grad_outputs[0].reshape(-1, grad_outputs[0].shape[-1])
        narrow_gradient = (upstream @ up).mul_(ctx.scale)
        states_gradient = None
        if ctx.needs_input_grad[0]:  # not below the lowest low-rank change
            states_gradient = (upstream @ weight).addmm_(narrow_gradient, down).view(ctx.shape)
        return states_gradient, None, None, narrow_gradient.T @ rows, (upstream.T @ narrow).mul_(ctx.scale), None


@final
class LowRankLinear(Linear):  # type: ignore[misc]  # PEFT has no types
    """PEFT's LoRA layer; uses `LowRankProduct` if the linear map is frozen and has exactly one active change."""

    @override
    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        base = self.get_base_layer()
        if self.merged or self.disable_adapters or len(self.active_adapters) != 1 or base.weight.requires_grad:
            return super().forward(x, *args, **kwargs)  # type: ignore[no-any-return]  # PEFT has no types
        (adapter,) = self.active_adapters
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        parts = (base.weight, base.bias, self.lora_A[adapter].weight, self.lora_B[adapter].weight)
        weight, bias, down, up = (None if part is None else part.to(dtype) for part in parts)
        result: Tensor = LowRankProduct.apply(x.to(dtype), weight, bias, down, up, self.scaling[adapter])  # type: ignore[no-untyped-call]
        return result


def speed_up_lora(model: nn.Module) -> None:
    """Turn PEFT's LoRA layers of class `Linear` into `LowRankLinear`; others stay as they are."""
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = LowRankLinear
