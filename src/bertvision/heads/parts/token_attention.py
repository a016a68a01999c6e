"""Many tokens → one: by attention of a learned query, one for each layer."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override


@final
class TokenAttention(nn.Module):
    """Σ softmax(qₗ·hₗₜ / √width)ₜ hₗₜ over the tokens t of a text, for every layer l.

    Starts as the mean, so that every token is seen at once.
    """

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(layers, width))

    def weights(self, states: Tensor, mask: Tensor) -> Tensor:
        """How much each token counts, (batch, layers, tokens); over the real ones they sum to 1."""
        query = self.query[: states.shape[1]]  # a head may have found out that it needs fewer layers
        query = query.to(states.dtype) / states.shape[-1] ** 0.5
        scores = torch.einsum("lw,bltw->blt", query, states).float()
        weights: Tensor = scores.masked_fill(~mask[:, None], float("-inf")).softmax(dim=-1)
        return weights

    @override
    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → (batch, layers, width)."""
        return torch.einsum("blt,bltw->blw", self.weights(states, mask).to(states.dtype), states)
