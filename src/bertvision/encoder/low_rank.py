"""LoRA layers of PEFT with a fused forward and backward pass.

PEFT's own layers multiply, scale and add in separate operations, each with its own backward pass. On a GPU, launching
these small kernels takes longer than computing them.
"""

from typing import Any, final

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from typing_extensions import override


@final
class LowRankProduct(torch.autograd.Function):
    """x Wᵀ + b + scale · (x Aᵀ) Bᵀ, with gradients for A, B and, if needed, x; W and b are frozen."""

    @staticmethod
    @override
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Both products into one result; x and x Aᵀ are saved."""
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
        """The gradients of x, A and B."""
        rows, narrow, weight, down, up = ctx.saved_tensors
        wide = grad_outputs[0].reshape(-1, grad_outputs[0].shape[-1])
        inner = (wide @ up).mul_(ctx.scale)
        of_states = None
        if ctx.needs_input_grad[0]:  # False in the lowest layer: nothing below it is trained
            of_states = (wide @ weight).addmm_(inner, down).view(ctx.shape)
        return of_states, None, None, inner.T @ rows, (wide.T @ narrow).mul_(ctx.scale), None


@final
class LowRankLinear(Linear):  # type: ignore[misc]  # PEFT has no types
    """A frozen linear map with one LoRA adapter."""

    @override
    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        own = self.get_base_layer()
        if self.merged or self.disable_adapters or len(self.active_adapters) != 1 or own.weight.requires_grad:
            return super().forward(x, *args, **kwargs)  # type: ignore[no-any-return]  # as above
        (adapter,) = self.active_adapters
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        parts = (own.weight, own.bias, self.lora_A[adapter].weight, self.lora_B[adapter].weight)
        weight, bias, down, up = (None if part is None else part.to(dtype) for part in parts)
        result: Tensor = LowRankProduct.apply(x.to(dtype), weight, bias, down, up, self.scaling[adapter])  # type: ignore[no-untyped-call]
        return result


def speed_up_lora(model: nn.Module) -> None:
    """Replace the class of PEFT's plain LoRA layers by `LowRankLinear`; other layers stay as they are."""
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = LowRankLinear
