"""Convolutions over (tokens, width) images with the layers as channels; the token axis is never shrunk."""

import math
from typing import Any, cast, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from typing_extensions import override

MOMENTUM, EPSILON = 0.01, 1e-3
"""Momentum and epsilon of batch normalisation, as in Keras."""


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
    batch, tokens, _, channels = padded.shape
    grouped = padded.reshape(batch, tokens, places, stride, channels)[..., :used, :].flatten(3)
    weight = nn.functional.pad(weight, (0, blocks * used - kernel)).reshape(*weight.shape[:3], blocks, used)
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
        if self.training:
            outputs, mean, variance = _BatchNorm.apply(images, image_mask(mask), self.weight, self.bias)  # type: ignore[no-untyped-call]
            with torch.no_grad():
                self.running_mean.lerp_(mean, MOMENTUM)
                self.running_variance.lerp_(variance, MOMENTUM)
            return cast("Tensor", outputs)
        scale = self.weight * torch.rsqrt(self.running_variance + EPSILON)
        return _scaled(images, scale, self.bias - self.running_mean * scale)


@final
class _BatchNorm(torch.autograd.Function):
    """What autograd would do, with fewer passes over the images, which are large, and one copy of them kept."""

    @staticmethod
    @override
    def forward(ctx: Any, images: Tensor, real: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        kept = torch.where(real, images, 0.0)  # so that sums over all are those over real tokens
        count = real.sum() * images.shape[-1]
        mean = kept.sum(dim=(0, 2, 3), dtype=torch.float32) / count
        variance = (_squares(kept) / count - mean.square()).clamp(min=0.0)
        inverse = torch.rsqrt(variance + EPSILON)
        scale = weight * inverse
        ctx.save_for_backward(kept, real, count, mean, variance, inverse, scale)
        ctx.mark_non_differentiable(mean, variance)
        return _scaled(kept, scale, bias - mean * scale), mean, variance

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor, Tensor]:
        gradient = gradients[0]
        kept, real, count, mean, variance, inverse, scale = ctx.saved_tensors
        total = gradient.sum(dim=(0, 2, 3), dtype=torch.float32)
        centred = (gradient * kept).sum(dim=(0, 2, 3), dtype=torch.float32) - mean * total
        for_variance = torch.where(variance > 0.0, -0.5 * scale * inverse.square() * centred, 0.0)
        for_sum = (-scale * total - 2 * mean * for_variance) / count
        for_images = _scaled(kept, 2 * for_variance / count, for_sum)
        for_images.addcmul_(gradient, _over_image(scale, gradient.dtype))
        return for_images.masked_fill_(~real, 0.0), None, inverse * centred, total


def _squares(images: Tensor) -> Tensor:
    """The sum of squares of every channel, in float32."""
    if images.is_cuda:  # without a copy
        length: Tensor = torch.linalg.vector_norm(images, dim=(0, 2, 3), dtype=torch.float32)
        return length.square()
    return images.float().square().sum(dim=(0, 2, 3))  # a norm takes five to ten times as long on a CPU


def _scaled(images: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Every channel times a number, plus a number."""
    return torch.addcmul(_over_image(shift, images.dtype), images, _over_image(scale, images.dtype))


def _over_image(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    return numbers[:, None, None].to(dtype)


@final
class SeparableConvolution(nn.Sequential):
    """One filter per channel, then a map of channels at each place; in 16 bits on a GPU one convolution for both.

    That computes more, but by kernels for products, which a convolution of every channel by itself has none of.
    """

    def __init__(
        self, channels: int, filters: int, kernel: tuple[int, int], *, stride: int, padding: tuple[int, int]
    ) -> None:
        """Build the convolution; its stride is along the width."""
        super().__init__(
            Convolution(channels, channels, kernel, stride=(1, stride), padding=padding, groups=channels, bias=False),
            Convolution(channels, filters, 1, bias=False),
        )

    @override
    def forward(self, input: Tensor) -> Tensor:
        narrow = input.dtype != torch.float32 or torch.is_autocast_enabled("cuda")
        if input.is_cuda and narrow:
            return self.merged(input)
        return cast("Tensor", super().forward(input))  # type: ignore[no-untyped-call]  # torch has no types here

    def merged(self, images: Tensor) -> Tensor:
        """The same by one convolution."""
        alone, together = cast("tuple[Convolution, Convolution]", tuple(self))
        weight = together.weight * alone.weight.transpose(0, 1)  # (filters, channels, tokens, width)
        weight = weight.contiguous(memory_format=torch.channels_last)
        return nn.functional.conv2d(images, weight, None, alone.stride, alone.padding)


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
        """Build the convolution and its normalisation.

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
            self.convolve: nn.Module = SeparableConvolution(channels, filters, kernel, stride=stride, padding=padding)
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
