"""Attention pooling over tokens, with one learned query per layer."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override


@final
class TokenAttention(nn.Module):
    """Σ softmax(qₗ·hₗₜ / √width)ₜ hₗₜ over the tokens t of a text, for every layer l; starts as the mean."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(layers, width))

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """Attention weights, (batch, layers, tokens); 0 for padding, summing to 1 over the real ones."""
        query = self.query[: states.shape[1]]  # a sparse `LayerPool` may need fewer layers after training
        query = query.to(states.dtype) / states.shape[-1] ** 0.5
        scores = torch.einsum("lw,bltw->blt", query, states).float()
        weights: Tensor = scores.masked_fill(~mask[:, None], float("-inf")).softmax(dim=-1)
        return weights

    @override
    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → (batch, layers, width)."""
        return torch.einsum("blt,bltw->blw", self.weights(states, mask).to(states.dtype), states)
