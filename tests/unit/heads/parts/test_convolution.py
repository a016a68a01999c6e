import math

import pytest
import torch
from torch import Tensor, nn

from bertvision.heads.parts.convolution import (
    Convolution,
    MaskedBatchNorm,
    NormedConv,
    SeparableConvolution,
    image_mask,
    unstride,
)
from close import EXACT, FLOAT32, FLOAT64
from known_weights import NO_EPSILON, fill, random_states, randomise, real_tokens

MASK = torch.tensor([[True, True, False], [True, False, False]])
PADDING = 99.0
IMAGES = torch.tensor(
    [
        [[[1.0, 3.0], [5.0, 7.0], [PADDING, PADDING]], [[4.0, 4.0], [4.0, 4.0], [PADDING, PADDING]]],
        [[[4.0, 4.0], [PADDING, 0.0], [0.0, PADDING]], [[4.0, 10.0], [PADDING, 0.0], [0.0, PADDING]]],
    ]
)
"""Two examples, two channels, three tokens, a width of two; six real numbers in each channel: 1 3 5 7 4 4 have a mean
of 4 and a variance of 20/6, 4 4 4 4 4 10 a mean of 5 and a variance of 30/6."""


def unnormed(part: NormedConv) -> NormedConv:
    """Its batch normalisation changes nothing."""
    part.norm.running_variance.fill_(NO_EPSILON)
    return part.eval()


def check_close(got: Tensor, expected: Tensor, tolerance: float = FLOAT32) -> None:
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def test_a_mask_is_laid_over_channels_and_width() -> None:
    images = torch.ones(2, 2, 3, 2) * image_mask(MASK)
    assert images.sum(dim=(1, 3)).tolist() == [[4, 4, 0], [4, 0, 0]]


def test_learning_normalises_each_channel_by_real_tokens_of_the_whole_batch() -> None:
    norm = MaskedBatchNorm(2)
    fill(norm, {"weight": [1.0, 2.0], "bias": [0.0, 10.0]})
    got = norm(IMAGES, MASK)
    first, second = math.sqrt(20 / 6 + 0.001), math.sqrt(30 / 6 + 0.001)
    assert got[0, 0, :2].flatten().tolist() == pytest.approx(
        [-3 / first, -1 / first, 1 / first, 3 / first], abs=FLOAT32
    )
    assert got[1, 0, 0].tolist() == pytest.approx([0.0, 0.0], abs=FLOAT32)
    assert got[1, 1, 0].tolist() == pytest.approx([10 - 2 / second, 10 + 10 / second], abs=FLOAT32)


def test_running_statistics_move_by_a_hundredth_while_learning() -> None:
    norm = MaskedBatchNorm(2)
    norm(IMAGES, MASK)
    assert norm.running_mean.tolist() == pytest.approx([0.04, 0.05], abs=FLOAT32)
    assert norm.running_variance.tolist() == pytest.approx([0.99 + 20 / 600, 0.99 + 30 / 600], abs=FLOAT32)
    norm(IMAGES, MASK)
    assert norm.running_mean.tolist() == pytest.approx([0.0796, 0.0995], abs=FLOAT32)
    assert not norm.running_mean.requires_grad
    assert sorted(norm.state_dict()) == ["bias", "running_mean", "running_variance", "weight"]


def test_evaluation_uses_running_statistics_and_leaves_them() -> None:
    norm = MaskedBatchNorm(2).eval()
    fill(norm, {"weight": [3.0, 1.0], "bias": [-1.0, 0.0]})
    norm.running_mean.copy_(torch.tensor([0.5, 4.0]))
    norm.running_variance.copy_(torch.tensor([0.249, 3.999]))  # with 0.001 more the squares of a half and of two
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    got = norm(IMAGES, MASK)
    assert got[0, 0, :2].flatten().tolist() == pytest.approx([2.0, 14.0, 26.0, 38.0], rel=FLOAT32)
    assert got[1, 1, 0].tolist() == pytest.approx([0.0, 3.0], abs=FLOAT32)
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


def test_what_stands_in_padding_changes_neither_outputs_nor_running_statistics() -> None:
    norms = [MaskedBatchNorm(2), MaskedBatchNorm(2)]
    other = torch.where(image_mask(MASK), IMAGES, torch.inf)
    rows = [norm(images, MASK).transpose(1, 2)[MASK] for norm, images in zip(norms, [IMAGES, other], strict=True)]
    check_close(rows[0], rows[1], EXACT)
    check_close(norms[0].running_mean, norms[1].running_mean, EXACT)
    check_close(norms[0].running_variance, norms[1].running_variance, EXACT)


def test_without_padding_outputs_and_gradients_are_those_of_torch() -> None:
    norm, reference = MaskedBatchNorm(3), nn.BatchNorm2d(3, eps=1e-3)
    randomise(norm)
    reference.load_state_dict({"weight": norm.weight, "bias": norm.bias}, strict=False)
    gradients = []
    for part, arguments in ((norm, [real_tokens(4, 4)]), (reference, [])):
        images = random_states(2, 3, 4, 5).requires_grad_()
        outputs = part(images, *arguments)
        torch.autograd.backward((outputs**3).sum())
        gradients.append((outputs.detach(), images.grad))
    for got, expected in zip(*gradients, strict=True):
        assert isinstance(got, Tensor)
        assert isinstance(expected, Tensor)
        check_close(got, expected)


def test_with_padding_gradients_are_those_of_real_tokens_alone() -> None:
    norm, reference = MaskedBatchNorm(3), nn.BatchNorm2d(3, eps=1e-3)
    randomise(norm)
    reference.load_state_dict({"weight": norm.weight, "bias": norm.bias}, strict=False)
    mask = real_tokens(4, 2)
    images = random_states(2, 3, 4, 5).requires_grad_()
    torch.autograd.backward((norm(images, mask).transpose(1, 2)[mask] ** 3).sum())
    tokens = images.detach().transpose(1, 2)[mask].requires_grad_()  # (real tokens, channels, width)
    torch.autograd.backward((reference(tokens[..., None]) ** 3).sum())
    assert images.grad is not None
    assert tokens.grad is not None
    check_close(images.grad.transpose(1, 2)[mask], tokens.grad)
    assert not images.grad.transpose(1, 2)[~mask].any()
    for got, expected in zip(norm.parameters(), reference.parameters(), strict=True):
        assert got.grad is not None
        assert expected.grad is not None
        check_close(got.grad, expected.grad)


def test_images_of_few_bits_stay_so_and_are_counted_in_full() -> None:
    norm = MaskedBatchNorm(1)
    images = torch.arange(2048, dtype=torch.bfloat16).reshape(1, 1, 2, 1024)
    mean = images.double().mean().item()
    assert norm(images, real_tokens(2)).dtype == torch.bfloat16
    assert norm.running_mean.item() == pytest.approx(mean / 100, rel=FLOAT32)


def test_a_plain_convolution_takes_all_channels_along_the_width() -> None:
    part = unnormed(NormedConv(2, 1))
    fill(part, {"convolve.weight": [1.0, 10.0, 100.0, 0.0, 0.0, -1.0], "norm.weight": [1.0], "norm.bias": [0.5]})
    images = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).reshape(1, 2, 1, 3)
    assert part(images, real_tokens(1)).flatten().tolist() == pytest.approx([205.5, 315.5, 32.5], rel=FLOAT32)


def test_a_separable_convolution_filters_each_channel_then_maps_channels() -> None:
    part = unnormed(NormedConv(2, 2, separable=True))
    fill(
        part,
        {
            "convolve.0.weight": [1.0, 10.0, 100.0, 0.0, 1.0, 0.0],
            "convolve.1.weight": [1.0, -1.0, 0.0, 2.0],
            "norm.weight": [1.0, 1.0],
            "norm.bias": [0.0, 0.0],
        },
    )
    images = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).reshape(1, 2, 1, 3)
    # channel by channel: 210 321 32 and 4 5 6
    got = part(images, real_tokens(1))[0, :, 0]
    check_close(got, torch.tensor([[206.0, 316.0, 26.0], [8.0, 10.0, 12.0]]))


@pytest.mark.parametrize("kernel", [(1, 3), (3, 3), (3, 1)])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_separable_convolution_is_one_with_the_product_of_its_weights(kernel: tuple[int, int], stride: int) -> None:
    torch.manual_seed(0)
    part = NormedConv(3, 5, kernel=kernel, stride=stride, separable=True).double().convolve
    assert isinstance(part, SeparableConvolution)
    images = torch.randn(2, 3, 4, 7, dtype=torch.float64, requires_grad=True)
    inputs = [images, *part.parameters()]
    two, one = part(images), part.merged(images)
    check_close(one, two, FLOAT64)
    wanted = torch.randn_like(two)
    for mine, other in zip(
        torch.autograd.grad(one, inputs, wanted), torch.autograd.grad(two, inputs, wanted), strict=True
    ):
        check_close(mine, other, FLOAT64)


@pytest.mark.parametrize("separable", [False, True])
@pytest.mark.parametrize(
    ("width", "stride", "places"),
    [(5, 1, [12, 123, 234, 345, 450]), (5, 2, [12, 234, 450]), (6, 2, [12, 234, 456]), (6, 3, [12, 345])],
)
def test_a_stride_skips_places_of_the_width_from_the_first_on(
    width: int, stride: int, places: list[int], *, separable: bool
) -> None:
    part = unnormed(NormedConv(1, 1, stride=stride, separable=separable))
    weights = {"convolve.weight": [100.0, 10.0, 1.0]}
    if separable:
        weights = {"convolve.0.weight": [100.0, 10.0, 1.0], "convolve.1.weight": [1.0]}
    fill(part, weights | {"norm.weight": [1.0], "norm.bias": [0.0]})
    images = torch.arange(1.0, width + 1).reshape(1, 1, 1, width)
    assert part(images, real_tokens(1)).flatten().tolist() == pytest.approx(places, rel=FLOAT32)


def test_neighbouring_tokens_are_seen_and_padding_counts_as_nothing() -> None:
    part = unnormed(NormedConv(1, 1, kernel=(3, 1)))
    fill(part, {"convolve.weight": [1.0, 10.0, 100.0], "norm.weight": [1.0], "norm.bias": [7.0]})
    images = torch.tensor([[1.0, 2.0, PADDING], [4.0, torch.inf, PADDING]]).reshape(2, 1, 3, 1)
    mask = real_tokens(3, 1)
    mask[0, 2] = False
    got = part(images, mask)[:, 0, :, 0]
    assert got[0, :2].tolist() == pytest.approx([217.0, 28.0], rel=FLOAT32)
    assert got[1, 0].item() == pytest.approx(47.0, rel=FLOAT32)


def test_a_wide_kernel_keeps_every_place() -> None:
    part = unnormed(NormedConv(1, 1, kernel=(5, 3)))
    randomise(part)
    images = random_states(1, 1, 4, 6)
    assert isinstance(part.convolve, nn.Conv2d)
    weight = part.convolve.weight[0, 0]
    padded = nn.functional.pad(images[0, 0], (1, 1, 2, 2))
    windows = [[(padded[t : t + 5, w : w + 3] * weight).sum() for w in range(6)] for t in range(4)]
    expected = nn.functional.batch_norm(
        torch.stack([torch.stack(row) for row in windows])[None, None],
        part.norm.running_mean,
        part.norm.running_variance,
        part.norm.weight,
        part.norm.bias,
        eps=1e-3,
    )
    check_close(part(images, real_tokens(4)), expected)


def test_weights_that_meet_padding_alone_have_no_gradient_in_16_bits_either() -> None:
    torch.manual_seed(0)
    convolve = Convolution(128, 128, (1, 13), stride=(1, 4), padding=(0, 6))
    images = torch.randn(4, 128, 7, 1)  # one place, so that only the middle of the kernel meets it
    for _ in range(5):
        torch.full((2**18,), torch.nan, dtype=torch.bfloat16)  # what memory may hold
        convolve.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            convolve(images.bfloat16()).sum().backward()
        assert convolve.weight.grad is not None
        edges = torch.cat([convolve.weight.grad[..., :6], convolve.weight.grad[..., 7:]], dim=-1)
        torch.testing.assert_close(edges, torch.zeros_like(edges), rtol=EXACT, atol=EXACT)
        assert convolve.weight.grad[..., 6].abs().min() > 0.0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding"),
    [
        ((1, 13), 4, 1, 6),
        ((1, 13), 4, 2, 12),
        ((5, 5), 4, 1, 2),
        ((7, 7), 7, 1, 3),
        ((1, 3), 3, 1, 1),
        ((1, 1), 2, 1, 0),
        ((1, 3), 5, 1, 1),
        ((1, 3), 2, 3, 2),
        ((3, 4), 6, 4, 5),
        ((1, 5), 1, 2, 4),
    ],
)
@pytest.mark.parametrize("width", [14, 15, 16, 17])
def test_a_convolution_without_a_stride_is_that_with_one(
    width: int, kernel: tuple[int, int], stride: int, dilation: int, padding: int, *, channels: int
) -> None:
    images = random_states(2, channels, 6, width).double()
    weight = torch.randn(5, channels, *kernel, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    tokens = kernel[0] // 2

    def direct(images: Tensor, weight: Tensor) -> Tensor:
        return nn.functional.conv2d(images, weight, None, (1, stride), (tokens, padding), (1, dilation))

    def unstrided(images: Tensor, weight: Tensor) -> Tensor:
        images, weight = unstride(images, weight, stride, dilation, padding)
        return nn.functional.conv2d(images, weight, padding=(tokens, 0))

    found = []
    for convolve in (direct, unstrided):
        read, learnt = images.clone().requires_grad_(), weight.clone().requires_grad_()
        outputs = convolve(read, learnt)
        torch.autograd.backward((outputs**2).sum())
        found.append((outputs, read.grad, learnt.grad))
    for got, expected in zip(*reversed(found), strict=True):
        torch.testing.assert_close(got, expected)
