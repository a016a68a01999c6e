"""Inception over tokens and width, after pooling and an adapter; every token keeps its place."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Positive, Whole
from bertvision.heads.parts.convolution import NormedConv, image_mask
from bertvision.heads.parts.image import LayerImage, Source
from bertvision.heads.parts.output import OutputMap

_STAGES = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)
"""Sizes of GoogLeNet's blocks: 1×1; before 3×3, 3×3; before 5×5, 5×5; after pooling. The width is halved in between."""


@final
class Inception(Head):
    """Project the mean over places of a GoogLeNet whose steps shorten the width alone, `scale` times as wide.

    The first step shortens it most, to about as many places as GoogLeNet's own third convolution sees: the width has no
    neighbours that belong together, and every place costs as much at each of the tokens, of which none is given up.
    """

    token_wise = False

    def __init__(
        self,
        shape: HeadShape,
        *,
        source: Source = "mix",
        adapter: Whole | None = 386,
        stride: Whole = 7,
        scale: Positive = 1.0,
    ) -> None:
        super().__init__(shape)
        self.image = LayerImage(shape, source=source, adapter=adapter)

        def size(filters: int) -> int:
            return max(1, round(scale * filters))

        self.first = NormedConv(self.image.channels, size(64), kernel=(7, 7), stride=stride)
        self.second = NormedConv(size(64), size(64), kernel=(1, 1))
        self.third = NormedConv(size(64), size(192), kernel=(3, 3))
        channels = size(192)
        stages = []
        for blocks in _STAGES:
            stage = []
            for filters in blocks:
                stage.append(_Block(channels, tuple(size(number) for number in filters)))
                channels = stage[-1].channels
            stages.append(nn.ModuleList(stage))
        self.stages = nn.ModuleList(stages)
        self.project = OutputMap(channels, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        images = self.first(self.image(states), mask).relu_()  # (batch, channels, tokens, width / stride)
        images = self.second(_halve(images), mask).relu_()
        images = self.third(images, mask).relu_()
        for stage in self.stages:
            images = _halve(images)
            for block in stage:  # type: ignore[attr-defined]  # a list of modules in a list of modules
                images = block(images, mask)
        outputs: Tensor = self.project(images.mean(dim=-1).transpose(1, 2))
        return outputs


def _halve(images: Tensor) -> Tensor:
    """The largest of three neighbours along the width, at every second place."""
    return nn.functional.max_pool2d(images, (1, 3), stride=(1, 2), padding=(0, 1))


@final
class _Block(nn.Module):
    """Four ways to look at a neighbourhood, side by side."""

    def __init__(self, channels: int, sizes: tuple[int, ...]) -> None:
        super().__init__()
        one, before_three, three, before_five, five, pooled = sizes
        self.one = NormedConv(channels, one, kernel=(1, 1))
        self.before_three = NormedConv(channels, before_three, kernel=(1, 1))
        self.three = NormedConv(before_three, three, kernel=(3, 3))
        self.before_five = NormedConv(channels, before_five, kernel=(1, 1))
        self.five = NormedConv(before_five, five, kernel=(5, 5))
        self.pooled = NormedConv(channels, pooled, kernel=(1, 1))
        self.channels = one + three + five + pooled

    @override
    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        """(batch, channels, tokens, width) → (batch, self.channels, tokens, width)."""
        # nothing is below 0 after ReLU, so that 0 in padding never is the largest of a real token's neighbours
        largest = nn.functional.max_pool2d(torch.where(image_mask(mask), images, 0.0), 3, stride=1, padding=1)
        ways = [
            self.one(images, mask),
            self.three(self.before_three(images, mask).relu_(), mask),
            self.five(self.before_five(images, mask).relu_(), mask),
            self.pooled(largest, mask),
        ]
        return torch.cat(ways, dim=1).relu_()
