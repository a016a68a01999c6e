"""Pooling over layers: a learned weighted sum, or the mean."""

from collections.abc import Sequence
from typing import Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.parts.float32_products import has_kernels

Gate = Literal["softmax", "sparsemax"]
Pooling = Literal["mix", "mean"]


@final
class LayerPool(nn.Module):
    """γ · Σ gate(w)ₗ hₗ, with the same weights for every token; starts as the mean of the layers.

    With sparsemax some weights become exactly 0; the layers above the last with a positive weight are then not needed.
    """

    def __init__(self, layers: int, *, gate: Gate = "softmax", norm: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.gate = gate
        self.norm = norm
        self.dropout = dropout
        self.mix = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    @property
    def needs(self) -> Sequence[int]:
        """Layers up to the last with a positive weight; in training mode all, as a weight of 0 may grow again."""
        if self.gate == "softmax" or self.training:
            return range(len(self.mix))
        return range(int(self.weights().nonzero().max()) + 1)

    def weights(self) -> Tensor:
        """Gated weights, (layers,), summing to 1; in training mode with layer dropout."""
        kept: Tensor = self.mix
        if self.training and self.dropout:
            dropped = torch.rand(len(kept), device=kept.device) < self.dropout
            kept = kept.masked_fill(dropped & ~dropped.all(), -torch.inf)  # never all of them
        return self._gated(kept)

    def learned(self) -> Tensor:
        """Scaled weights of all layers, (layers,), without dropout: for analysis."""
        return self.scale * self._gated(self.mix)

    def factors(self) -> Tensor:
        """Scaled weights of the layers in `needs`, as the forward pass uses them, (needed layers,)."""
        return self.scale * self.weights()[: len(self.needs)]

    def normed(self, states: Tensor) -> Tensor:
        """The states, with LayerNorm (no learned scale and shift) if `norm` is set."""
        return nn.functional.layer_norm(states, states.shape[-1:]) if self.norm else states

    @override
    def forward(self, states: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → (batch, tokens, width)."""
        factors = self.factors()
        if has_kernels(states) and not (self.norm or states.requires_grad):
            return _kernel_mixture(factors, states[:, : len(factors)])
        factors = factors.to(states.dtype)
        # tokens and width as one axis: a sum over an axis in the middle would copy all states first
        mixed = torch.matmul(factors, self.normed(states[:, : len(factors)]).flatten(2))
        return mixed.reshape(states.shape[0], *states.shape[2:])

    def _gated(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=0) if self.gate == "softmax" else sparsemax(scores)


@final
class MeanPool(nn.Module):
    """The mean of all layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.needs = range(layers)

    @override
    def forward(self, states: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → (batch, tokens, width)."""
        if has_kernels(states) and not states.requires_grad:
            layers = states.shape[1]
            return _kernel_mixture(states.new_ones(layers), states, 1 / layers)
        return states.mean(dim=1)


@final
class SharedDropout(nn.Module):
    """Dropout with one mask for all layers of a token, so that it commutes with any sum over the layers."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    @override
    def forward(self, states: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → the same."""
        if not self.training or not self.share:
            return states
        return states * nn.functional.dropout(torch.ones_like(states[:, :1]), self.share)


def _kernel_mixture(weights: Tensor, states: Tensor, factor: float = 1.0) -> Tensor:
    """The weighted sum of the layers times a factor, (batch, tokens, width), by our Triton kernel."""
    from bertvision.heads.parts.mixtures import layer_mixtures  # noqa: PLC0415 - needs Triton

    each = weights[None, :, None, None].expand(*states.shape[:3], 1)
    return layer_mixtures(each, states, heads=1, factor=factor).view(states.shape[0], *states.shape[2:])


def build_pool(pool: Pooling, layers: int) -> LayerPool | MeanPool:
    """A pool by name."""
    return LayerPool(layers) if pool == "mix" else MeanPool(layers)


def sparsemax(scores: Tensor) -> Tensor:
    """Projection of `scores`, (n,), onto the probability simplex: a sparse softmax (Martins & Astudillo 2016).

    Scores of -inf get 0.
    """
    ordered = scores.sort(descending=True).values
    places = torch.arange(1, len(scores) + 1, device=scores.device, dtype=scores.dtype)
    supported = 1 + places * ordered > ordered.cumsum(dim=0)
    count = supported.sum()
    threshold = (torch.where(supported, ordered, 0.0).sum() - 1) / count
    return (scores - threshold).relu()  # unlike clamp it has no gradient at 0, where a score just does not count
