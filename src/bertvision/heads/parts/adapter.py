"""The first half of a bottleneck adapter: every layer of every token, made small."""

from typing import Any, cast, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.parts.float32_products import ALIGNED, has_kernels, layer_maps

INITIAL_DEVIATION = 1e-3
"""Standard deviation of the first weights."""

MAX_OUTPUTS = 16
"""Most outputs that our kernel projects to: each takes registers of its own."""

MAX_GROUPS = 65535
"""Most layers of all windows together that our kernel takes: a CUDA grid is no larger along its second axis."""


@final
class Adapter(nn.Module):
    """gelu(h W + b), with one W for all layers or one for each."""

    def __init__(self, width: int, size: int, *, layers: int | None = None) -> None:
        """Build the adapter.

        Args:
            width: numbers per token and layer.
            size: numbers it makes of them.
            layers: how many have a W of their own; None shares one among all.
        """
        super().__init__()
        copies = () if layers is None else (layers,)
        self.weight = nn.Parameter(torch.empty(*copies, width, size))
        self.bias = nn.Parameter(torch.zeros(*copies, size))
        nn.init.trunc_normal_(self.weight, std=INITIAL_DEVIATION, a=-2 * INITIAL_DEVIATION, b=2 * INITIAL_DEVIATION)

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
        layers = slice(first, first + states.shape[1])
        each = weight.reshape(len(weight), -1, self.size).transpose(0, 1)[layers]
        if has_kernels(states) and not states.requires_grad and _fits(states, len(weight)):
            from bertvision.heads.parts.adapted import adapted_scores  # noqa: PLC0415 - needs Triton

            if self.weight.ndim == 2:
                return adapted_scores(states, self.weight, self.bias, each)
            return adapted_scores(states, self.weight[layers], self.bias[layers], each)
        return layer_maps(self._padded(states, first), each)

    def _padded(self, states: Tensor, first: int = 0) -> Tensor:
        """With zeros behind the numbers, up to a size that a GPU is fast with."""
        size = self.size + (0 if states.dtype == torch.float32 else -self.size % ALIGNED)
        weight, bias = _pad(self.weight, size, states.dtype), _pad(self.bias, size, states.dtype)
        if weight.ndim == 2:
            inner = nn.functional.linear(states, weight.T, bias)
        else:
            layers = slice(first, first + states.shape[1])
            inner = torch.einsum("bltw,lwd->bltd", states, weight[layers]) + bias[layers, None]
        return nn.functional.gelu(inner, approximate="tanh")


def _fits(states: Tensor, outputs: int) -> bool:
    """Whether our kernel takes so many windows, layers and outputs."""
    return outputs <= MAX_OUTPUTS and states.shape[0] * states.shape[1] <= MAX_GROUPS


def _pad(values: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """The same with zeros behind, in another precision."""
    if values.shape[-1] == size:
        return values.to(dtype)
    return cast("Tensor", _Padded.apply(values, size, dtype))  # type: ignore[no-untyped-call]


@final
class _Padded(torch.autograd.Function):
    """Rounds and pads at once, which saves a kernel."""

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
