"""Xception along the width of each token, with the layers as channels: abbreviated, full, or in between."""

from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Count, Sizes, Whole
from bertvision.heads.parts.convolution import NormedConv
from bertvision.heads.parts.image import LayerImage, Source
from bertvision.heads.parts.output import OutputMap


@final
class Xception(Head):
    """Project the mean over places of an Xception network's last maps; with `skip` the last layer beside it.

    Plain convolutions (`stem`), the first of them at every so many places (`strides`); blocks of two separable ones
    that halve the width (`entry`, two sizes each); `middle` blocks of three that keep it; blocks that halve it again
    (`exit`); single separable ones (`tail`).
    """

    def __init__(
        self,
        shape: HeadShape,
        *,
        source: Source = "layers",
        adapter: Whole | None = None,
        stem: Sizes = (64, 128),
        strides: Sizes = (3,),
        entry: Sizes = (256, 512),
        middle: Count = 0,
        exit: Sizes = (),  # noqa: A002 - what the network's authors call it
        tail: Sizes = (),
        skip: bool = False,
    ) -> None:
        super().__init__(shape)
        if len(entry) % 2 or len(exit) % 2 or not entry:
            raise BertVisionError(f"head 'xception': entry is {entry} and exit {exit}, pairs of sizes are expected.")
        self.skip = skip
        self.image = LayerImage(shape, source=source, adapter=adapter)
        first = [self.image.channels, *stem]
        self.stem = nn.ModuleList(
            NormedConv(before, after, stride=stride)
            for (before, after), stride in zip(pairwise(first), (*strides, *(1 for _ in stem)), strict=False)
        )
        halving = [entry[place : place + 2] for place in range(0, len(entry), 2)]
        keeping = [(entry[-1],) * 3] * middle
        leaving = [exit[place : place + 2] for place in range(0, len(exit), 2)]
        sizes = [*halving, *keeping, *leaving]
        channels = [first[-1], *(size[-1] for size in sizes)]
        self.blocks = nn.ModuleList(
            _Block(before, size, halve=size not in keeping) for before, size in zip(channels, sizes, strict=False)
        )
        last = [channels[-1], *tail]
        self.tail = nn.ModuleList(NormedConv(before, after, separable=True) for before, after in pairwise(last))
        self.project = OutputMap(last[-1] + shape.width * skip, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        images = self.image(states)  # (batch, channels, tokens, width)
        for convolve in self.stem:
            images = convolve(images, mask).relu_()
        for block in self.blocks:
            images = block(images, mask)
        for convolve in self.tail:
            images = convolve(images, mask).relu_()
        maps = images.mean(dim=-1).transpose(1, 2)  # (batch, tokens, channels)
        outputs: Tensor = self.project(torch.cat([maps, states[:, -1]], dim=-1) if self.skip else maps)
        return outputs


@final
class _Block(nn.Module):
    """Separable convolutions, and around them what came in: as it is, or halved in width by a convolution."""

    def __init__(self, channels: int, sizes: tuple[int, ...], *, halve: bool) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            NormedConv(before, after, separable=True) for before, after in pairwise([channels, *sizes])
        )
        self.around = NormedConv(channels, sizes[-1], kernel=(1, 1), stride=2) if halve else None

    @override
    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        """(batch, channels, tokens, width) → (batch, last size, tokens, width or half of it)."""
        inner = images.relu()
        for place, convolve in enumerate(self.convolutions):
            inner = convolve(inner.relu_() if place else inner, mask)
        if self.around is None:
            return images + inner
        inner = nn.functional.avg_pool2d(inner, (1, 3), stride=(1, 2), padding=(0, 1), count_include_pad=False)
        halved: Tensor = inner + self.around(images, mask)
        return halved
