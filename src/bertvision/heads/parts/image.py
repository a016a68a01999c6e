"""Hidden states as an image for convolutions: the layers as channels, or their pooled sum as a single channel."""

from typing import Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import HeadShape
from bertvision.heads.parts.adapter import Adapter
from bertvision.heads.parts.pool import build_pool

Source = Literal["layers", "mix", "mean"]
"""The channels: all layers; or one channel, which is their learned weighted sum or their mean."""


@final
class LayerImage(nn.Module):
    """States → (batch, channels, tokens, width), optionally through an adapter.

    Attributes:
        channels: number of channels.
        width: width of the image: the adapter's size, or that of the states.
    """

    def __init__(self, shape: HeadShape, *, source: Source, adapter: int | None) -> None:
        super().__init__()
        self.pool = None if source == "layers" else build_pool(source, shape.layers)
        self.adapter = None if adapter is None else Adapter(shape.width, adapter)
        self.channels = shape.layers if source == "layers" else 1
        self.width = shape.width if adapter is None else adapter

    @override
    def forward(self, states: Tensor) -> Tensor:
        """(batch, layers, tokens, width) → (batch, channels, tokens, width)."""
        images = states if self.pool is None else self.pool(states).unsqueeze(1)
        if self.adapter is not None:
            images = self.adapter(images)
        # with channels innermost, convolutions are faster on processors as on GPUs
        return images.contiguous(memory_format=torch.channels_last)
