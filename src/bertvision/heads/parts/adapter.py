"""The first half of a bottleneck adapter: every layer of every token, made small."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

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

    @override
    def forward(self, states: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → (batch, layers, tokens, size); any shape (…, width) if W is shared."""
        weight, bias = self.weight.to(states.dtype), self.bias.to(states.dtype)
        if weight.ndim == 2:
            inner = nn.functional.linear(states, weight.T, bias)
        else:
            inner = torch.einsum("bltw,lwd->bltd", states, weight) + bias[:, None]
        return nn.functional.gelu(inner, approximate="tanh")
