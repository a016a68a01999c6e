"""Convolutions over (tokens, width) images with the layers as channels; the token axis is never shrunk."""

from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

MOMENTUM, EPSILON = 0.01, 1e-3
"""Of batch normalisation, as Keras has them."""


def image_mask(mask: Tensor) -> Tensor:
    """(batch, tokens) → (batch, 1, tokens, 1), to lay over an image."""
    return mask[:, None, :, None]


@final
class Convolution(nn.Conv2d):
    """A convolution of images; on a CPU in float32.

    In bfloat16 oneDNN leaves gradients of weights that meet nothing but padding as memory was, NaN now and then.
    """

    @override
    def forward(self, input: Tensor) -> Tensor:
        if input.is_cuda or not torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        with torch.autocast("cpu", enabled=False):
            return super().forward(input.float())


@final
class MaskedBatchNorm(nn.Module):
    """Batch normalisation whose statistics come from real tokens only."""

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_variance", torch.ones(channels))

    @override
    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        """(batch, channels, tokens, width) → the same; mask: (batch, tokens)."""
        mean, variance = self.running_mean, self.running_variance
        if self.training:
            mean, variance = self._statistics(images, image_mask(mask))
        scale = self.weight * torch.rsqrt(variance + EPSILON)
        shift = self.bias - mean * scale
        return torch.addcmul(shift[:, None, None].to(images.dtype), images, scale[:, None, None].to(images.dtype))

    def _statistics(self, images: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        count = real.sum() * images.shape[-1]
        # with zeros in padding sums are enough: images are large, and every further look at them costs
        kept = torch.where(real, images, 0.0)
        mean = kept.sum(dim=(0, 2, 3), dtype=torch.float32) / count
        length = torch.linalg.vector_norm(kept, dim=(0, 2, 3), dtype=torch.float32)
        variance = (length.square() / count - mean.square()).clamp(min=0.0)
        with torch.no_grad():
            self.running_mean.lerp_(mean, MOMENTUM)
            self.running_variance.lerp_(variance, MOMENTUM)
        return mean, variance


@final
class NormedConv(nn.Module):
    """A convolution without bias, plain or depth-wise separable, then batch normalisation."""

    def __init__(
        self,
        channels: int,
        filters: int,
        *,
        kernel: tuple[int, int] = (1, 3),
        stride: int = 1,
        separable: bool = False,
    ) -> None:
        """Make one.

        Args:
            channels: of the image that comes in.
            filters: channels that go out.
            kernel: over tokens and width, both odd.
            stride: along the width.
            separable: one filter per channel, then a map of channels at each place.
        """
        super().__init__()
        self.over_tokens = kernel[0] > 1
        padding = (kernel[0] // 2, kernel[1] // 2)
        if separable:
            self.convolve: nn.Module = nn.Sequential(
                Convolution(
                    channels, channels, kernel, stride=(1, stride), padding=padding, groups=channels, bias=False
                ),
                Convolution(channels, filters, 1, bias=False),
            )
        else:
            self.convolve = Convolution(channels, filters, kernel, stride=(1, stride), padding=padding, bias=False)
        self.convolve.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # as images are; torch forgot this form
        self.norm = MaskedBatchNorm(filters)

    @override
    def forward(self, images: Tensor, mask: Tensor) -> Tensor:
        """(batch, channels, tokens, width) → (batch, filters, tokens, width / stride)."""
        if self.over_tokens:  # normalising has put something into padding, and a neighbour would see it
            images = torch.where(image_mask(mask), images, 0.0)
        outputs: Tensor = self.norm(self.convolve(images), mask)
        return outputs
