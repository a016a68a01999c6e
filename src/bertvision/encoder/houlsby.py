"""Bottleneck adapters inside the layers (Houlsby et al., 2019): after attention and after the feed-forward block."""

from typing import Any, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.encoder.encoder import Encoder
from bertvision.errors import BertVisionError

INITIAL_STD = 1e-3
"""Standard deviation of initial weights; so small that new adapters hardly change the states."""

ADAPTER = "houlsby"
"""Name of the adapter within the linear map whose output it changes; so the map's own parameters keep their names."""


@final
class HoulsbyAdapter(nn.Module):
    """x + up(gelu(down(x))), initially close to the identity."""

    def __init__(self, width: int, bottleneck: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, bottleneck)
        self.up = nn.Linear(bottleneck, width)
        for linear in (self.down, self.up):
            if linear.weight.device.type != "meta":
                nn.init.trunc_normal_(linear.weight, std=INITIAL_STD, a=-2 * INITIAL_STD, b=2 * INITIAL_STD)
                nn.init.zeros_(linear.bias)

    @override
    def forward(self, states: Tensor) -> Tensor:
        change: Tensor = self.up(nn.functional.gelu(self.down(states)))
        return states + change


def add_houlsby_adapters(encoder: Encoder, bottleneck: int) -> None:
    """Add adapters to every layer: after attention and after the feed-forward block, before dropout and residual sum.

    Args:
        encoder: to which they are added, in place.
        bottleneck: their inner width.

    Raises:
        BertVisionError: the encoder has adapters already.
    """
    if any(isinstance(module, HoulsbyAdapter) for module in encoder.modules()):
        raise BertVisionError(f"{encoder.name} has Houlsby adapters already. Use another --learn, or untuned weights.")
    names = encoder.architecture.attention_output, encoder.architecture.feed_forward_output
    for block in encoder.blocks:
        for name in names:
            linear = block.get_submodule(name)
            weight = next(linear.parameters())
            with torch.device(weight.device):
                adapter = HoulsbyAdapter(encoder.width, bottleneck).to(weight.dtype)
            linear.add_module(ADAPTER, adapter)
            linear.register_forward_hook(_adapt)


def _adapt(linear: nn.Module, _inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    adapted: Tensor = linear.get_submodule(ADAPTER)(output)
    return adapted
