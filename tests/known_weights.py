"""Modules with weights that a test knows: written down, or random ones that matter all alike."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

NO_EPSILON = 1.0 - 1e-3
"""A running variance that batch normalisation divides by exactly 1: its epsilon is 1e-3."""


def fill(module: nn.Module, values: Mapping[str, Sequence[float]]) -> None:
    """Set every parameter, by name; a test that forgets one fails."""
    own = dict(module.named_parameters())
    assert sorted(own) == sorted(values)
    for name, parameter in own.items():
        parameter.data.copy_(torch.tensor(values[name], dtype=parameter.dtype).reshape(parameter.shape))


def randomise(module: nn.Module, seed: int = 0) -> None:
    """Give every parameter and running statistic a random value, so that none is 0 or 1 by chance."""
    random = torch.Generator().manual_seed(seed)
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        drawn = torch.rand(value.shape, generator=random)
        size = max(value[0].numel(), 1) ** -0.5 if value.ndim > 1 else 1.0  # sums of products stay near 1
        value.data.copy_(0.5 + drawn if "variance" in name else size * (4 * drawn - 2))


def random_states(*shape: int, seed: int = 1) -> Tensor:
    """Hidden states, (batch, layers, tokens, width)."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def real_tokens(*lengths: int) -> Tensor:
    """A mask, (batch, tokens), of examples with so many real tokens each."""
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
