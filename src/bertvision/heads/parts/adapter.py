"""The down-projection of a bottleneck adapter, with its activation, applied to every layer."""

from typing import Any, cast, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.parts.float32_products import ALIGNED, MAX_GRID, has_kernels, layer_maps

INITIAL_DEVIATION = 1e-3
"""Standard deviation of the initial weights."""

MAX_OUTPUTS = 16
"""Most outputs that our Triton kernel takes: each needs registers of its own."""


@final
class Adapter(nn.Module):
    """gelu(h W + b), with one W for all layers or one for each."""

    def __init__(self, width: int, size: int, *, layers: int | None = None) -> None:
        """Build the adapter.

        Args:
            width: input size.
            size: bottleneck (output) size.
            layers: number of layers, each with its own W; None shares one W among all layers.
        """
        super().__init__()
        copies = () if layers is None else (layers,)
        self.weight = nn.Parameter(torch.empty(*copies, width, size))
        self.bias = nn.Parameter(torch.zeros(*copies, size))
        nn.init.trunc_normal_(self.weight, std=INITIAL_DEVIATION, a=-2 * INITIAL_DEVIATION, b=2 * INITIAL_DEVIATION)

    @property
    def size(self) -> int:
        """The bottleneck (output) size."""
        return self.bias.shape[-1]

    @override
    def forward(self, states: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → (batch, layers, tokens, size); any shape (…, width) if W is shared."""
        return self._padded(states)[..., : self.size]

    def scores(self, states: Tensor, weight: Tensor, first: int = 0) -> Tensor:
        """Project every adapted layer with its slice of a weight for all layers concatenated.

        The sum over the layers equals the linear map of the concatenated adapted layers, which is never materialised.

        Args:
            states: (batch, layers, tokens, width).
            weight: (outputs, all layers · size).
            first: index of the first layer of `states` among all layers.

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
        """The adapted layers, for 16 bits padded with zeros to a multiple of `ALIGNED` numbers."""
        size = self.size + (0 if states.dtype == torch.float32 else -self.size % ALIGNED)
        weight, bias = _pad(self.weight, size, states.dtype), _pad(self.bias, size, states.dtype)
        if weight.ndim == 2:
            inner = nn.functional.linear(states, weight.T, bias)
        else:
            layers = slice(first, first + states.shape[1])
            inner = torch.einsum("bltw,lwd->bltd", states, weight[layers]) + bias[layers, None]
        return nn.functional.gelu(inner, approximate="tanh")


def _fits(states: Tensor, outputs: int) -> bool:
    """Whether batch, layers and outputs are within the limits of our Triton kernel."""
    return outputs <= MAX_OUTPUTS and states.shape[0] * states.shape[1] <= MAX_GRID


def _pad(values: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """Convert to `dtype`, and pad the last axis with zeros up to `size`."""
    if values.shape[-1] == size:
        return values.to(dtype)
    return cast("Tensor", _Padded.apply(values, size, dtype))  # type: ignore[no-untyped-call]


@final
class _Padded(torch.autograd.Function):
    """Conversion and padding in one kernel instead of two."""

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
