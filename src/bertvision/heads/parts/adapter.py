"""The first half of a bottleneck adapter: every layer of every token, made small."""

from typing import Any, cast, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.parts.wide import ALIGNED, has_kernels, layer_maps

SCALE = 1e-3
"""Standard deviation of the first weights."""


@final
class Adapter(nn.Module):
    """gelu(h W + b), with one W for all layers or one for each."""

    def __init__(self, width: int, size: int, *, layers: int | None = None) -> None:
        """Make one.

        Args:
            width: numbers per token and layer.
            size: numbers it makes of them.
            layers: how many have a W of their own; None shares one among all.
        """
        super().__init__()
        copies = () if layers is None else (layers,)
        self.weight = nn.Parameter(torch.empty(*copies, width, size))
        self.bias = nn.Parameter(torch.zeros(*copies, size))
        nn.init.trunc_normal_(self.weight, std=SCALE, a=-2 * SCALE, b=2 * SCALE)

    @property
    def size(self) -> int:
        """Numbers per token and layer that come out."""
        return self.bias.shape[-1]

    @override
    def forward(self, states: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → (batch, layers, tokens, size); any shape (…, width) if W is shared."""
        return self._padded(states)[..., : self.size]

    def scores(self, states: Tensor, weight: Tensor, first: int = 0) -> Tensor:
        """The adapted layers, each projected by a weight of its own: a map of all of them side by side is the sum.

        Args:
            states: (batch, layers, tokens, width).
            weight: (outputs, all layers · size), for the layers side by side.
            first: number of the first layer in `states` among all.

        Returns:
            (batch, layers, tokens, outputs), float32.
        """
        each = weight.reshape(len(weight), -1, self.size).transpose(0, 1)[first : first + states.shape[1]]
        if not has_kernels(states):
            return layer_maps(self._padded(states, first), each)
        from bertvision.heads.parts.adapted import adapted_scores  # noqa: PLC0415 - needs Triton

        weight, bias = self._weight(states.dtype), self.bias.float()
        if weight.ndim == 2:
            return adapted_scores(states @ weight, bias.expand(len(each), -1), each.float())
        return adapted_scores(_own(states, weight, first), bias[first : first + len(each)], each.float())

    def _padded(self, states: Tensor, first: int = 0) -> Tensor:
        """With zeros behind the numbers, up to a size that a GPU is fast with."""
        weight, bias = self._weight(states.dtype), _pad(self.bias, self._columns(states.dtype), states.dtype)
        if weight.ndim == 2:
            inner = nn.functional.linear(states, weight.T, bias)
        else:
            inner = _own(states, weight, first) + bias[first : first + states.shape[1], None]
        return nn.functional.gelu(inner, approximate="tanh")

    def _weight(self, dtype: torch.dtype) -> Tensor:
        return _pad(self.weight, self._columns(dtype), dtype)

    def _columns(self, dtype: torch.dtype) -> int:
        return self.size + (0 if dtype == torch.float32 else -self.size % ALIGNED)


def _own(states: Tensor, weight: Tensor, first: int) -> Tensor:
    """Every layer by a weight of its own."""
    weight = weight[first : first + states.shape[1]]
    if states.is_cuda and len(states) == 1 and not states.requires_grad:
        return cast("Tensor", _OwnProducts.apply(states[0], weight))[None]  # type: ignore[no-untyped-call]
    return torch.einsum("bltw,lwd->bltd", states, weight)


@final
class _OwnProducts(torch.autograd.Function):
    """Products of every layer, whose gradients are computed layer by layer: a GPU is faster at that than at a batch."""

    @staticmethod
    @override
    def forward(ctx: Any, states: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(states)
        return torch.bmm(states, weight)

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        (states,) = ctx.saved_tensors
        (gradient,) = gradients
        turned = states.new_empty(len(states), gradient.shape[2], states.shape[2])
        for layer, above, out in zip(states, gradient, turned, strict=True):
            torch.mm(above.T, layer, out=out)
        return None, turned.transpose(1, 2)


def _pad(values: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """The same with zeros behind, in another precision."""
    if values.shape[-1] == size:
        return values.to(dtype)
    return cast("Tensor", _Padded.apply(values, size, dtype))  # type: ignore[no-untyped-call]


@final
class _Padded(torch.autograd.Function):
    """Rounds and pads in one go: every kernel less counts, since they are all short."""

    @staticmethod
    @override
    def forward(ctx: Any, values: Tensor, size: int, dtype: torch.dtype) -> Tensor:
        ctx.before = values.shape[-1], values.dtype
        padded = values.new_zeros(*values.shape[:-1], size, dtype=dtype)
        padded[..., : values.shape[-1]] = values
        return padded

    @staticmethod
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        size, dtype = ctx.before
        return gradients[0][..., :size].to(dtype), None, None
