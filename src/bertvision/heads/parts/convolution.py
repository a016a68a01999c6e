"""Convolutions over (tokens, width) images with the layers as channels; the token axis is never shrunk."""

import math
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

MOMENTUM, EPSILON = 0.01, 1e-3
"""Of batch normalisation, as Keras has them."""


def image_mask(mask: Tensor) -> Tensor:
    """(batch, tokens) → (batch, 1, tokens, 1), to lay over an image."""
    return mask[:, None, :, None]


def unstride(images: Tensor, weight: Tensor, stride: int, dilation: int, padding: int) -> tuple[Tensor, Tensor]:
    """Images and a weight whose convolution is the same without stride, dilation and padding along the width.

    As many neighbours as the stride counts become the channels of one place, of the images as of the weight.

    Args:
        images: (batch, channels, tokens, width).
        weight: (filters, channels, tokens, width).
        stride: along the width.
        dilation: along the width.
        padding: on either side of the width.
    """
    outputs = (images.shape[-1] + 2 * padding - dilation * (weight.shape[-1] - 1) - 1) // stride + 1
    step = math.gcd(stride, dilation)  # places in between are never looked at
    images = images[..., -padding % step :: step]
    stride, dilation, padding = stride // step, dilation // step, -(-padding // step)
    if dilation > 1:
        weight = nn.functional.pad(weight[..., None], (0, dilation - 1)).flatten(-2)[..., : 1 - dilation]
    kernel = weight.shape[-1]
    blocks, used = -(-kernel // stride), min(stride, kernel)
    places = outputs + blocks - 1
    padded = nn.functional.pad(
        images.permute(0, 2, 3, 1), (0, 0, padding, places * stride - padding - images.shape[-1])
    )
    grouped = padded.unflatten(2, (places, stride))[..., :used, :].flatten(3)
    weight = nn.functional.pad(weight, (0, blocks * used - kernel)).unflatten(-1, (blocks, used))
    return grouped.permute(0, 3, 1, 2), weight.permute(0, 2, 3, 4, 1).flatten(3).permute(0, 3, 1, 2)


@final
class Convolution(nn.Conv2d):
    """A convolution of images; a stride along the width becomes channels where that is faster; on a CPU in float32.

    In bfloat16 oneDNN leaves gradients of weights that meet nothing but padding as memory was, NaN now and then.
    """

    @override
    def forward(self, input: Tensor) -> Tensor:
        if input.is_cuda or not torch.is_autocast_enabled("cpu"):
            return self._convolve(input)
        with torch.autocast("cpu", enabled=False):
            return self._convolve(input.float())

    def _convolve(self, images: Tensor) -> Tensor:
        (_, stride), (_, dilation) = self.stride, self.dilation
        tokens, padding = (int(size) for size in self.padding)
        # cuDNN's gradient of a strided convolution's input is slow, so are oneDNN's of one channel, but not of more
        if stride == 1 or self.groups > 1 or not (images.is_cuda or self.in_channels == 1):
            return super().forward(images)
        images, weight = unstride(images, self.weight, stride, dilation, padding)
        return nn.functional.conv2d(images, weight, self.bias, padding=(tokens, 0))


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
