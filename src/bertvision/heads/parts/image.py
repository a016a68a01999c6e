"""Layers → the image that convolutions read: all layers as channels, or one channel, pooled and made small."""

from typing import Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import HeadShape
from bertvision.heads.parts.adapter import Adapter
from bertvision.heads.parts.pool import build_pool

Source = Literal["layers", "mix", "mean"]
"""What the channels are: every layer one, or a single one, the learned mixture or the mean of them."""


@final
class LayerImage(nn.Module):
    """States → (batch, channels, tokens, width), the width an adapter's where there is one.

    Attributes:
        channels: of the image.
        width: of the image.
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
