"""Convolutions along the width of each token, with the layers as channels, then one linear map."""

from itertools import pairwise
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Share, Sizes, Whole
from bertvision.heads.parts.convolution import Convolution, image_mask
from bertvision.heads.parts.image import LayerImage, Source
from bertvision.heads.parts.output import OutputMap, tokens_first


@final
class Conv(Head):
    """Project what convolutions make of a token: 1×N along the width, or N×N with its neighbours, too."""

    def __init__(
        self,
        shape: HeadShape,
        *,
        source: Source = "layers",
        adapter: Whole | None = None,
        filters: Sizes = (64, 128, 128),
        kernel: Whole = 13,
        stride: Whole = 4,
        dilation: Whole = 1,
        ngram: Whole = 1,
        dropout: Share = 0.1,
    ) -> None:
        super().__init__(shape)
        if not kernel % 2 or not ngram % 2:
            raise BertVisionError(f"head 'conv': kernel is {kernel} and ngram {ngram}, odd numbers are expected.")
        self.token_wise = ngram == 1
        self.image = LayerImage(shape, source=source, adapter=adapter)
        channels = [self.image.channels, *filters]
        self.convolutions = nn.ModuleList(
            Convolution(
                before,
                after,
                (ngram, kernel),
                stride=(1, stride),
                dilation=(1, dilation),
                padding=(ngram // 2, dilation * (kernel // 2)),
            )
            for before, after in pairwise(channels)
        )
        self.dropout = nn.Dropout(dropout)
        width = self.image.width
        for _ in filters:
            width = (width - 1) // stride + 1
        self.project = OutputMap(channels[-1] * width, shape.outputs)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        images = self.image(states)  # (batch, channels, tokens, width)
        for convolve in self.convolutions:
            if not self.token_wise:  # a bias has put something into padding, and a neighbour would see it
                images = torch.where(image_mask(mask), images, 0.0)
            images = self.dropout(nn.functional.relu(convolve(images)))
        outputs: Tensor = self.project(tokens_first(images))
        return outputs
