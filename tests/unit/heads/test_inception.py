import pytest
import torch
from torch import Tensor, nn

from bertvision.heads import HeadShape, build_head
from bertvision.heads.inception import Inception
from bertvision.heads.parts.convolution import NormedConv
from bertvision.heads.parts.image import LayerImage, Source
from close import DEEP, FLOAT32
from known_weights import NO_EPSILON, random_states, randomise, real_tokens

SHAPE = HeadShape(layers=3, width=20, outputs=2)
SCALE = 1 / 64


def make(shape: HeadShape = SHAPE, *, source: Source = "layers", stride: int = 7) -> Inception:
    head = Inception(shape, source=source, adapter=None, stride=stride, scale=SCALE).eval()
    randomise(head)
    for part in head.modules():
        if isinstance(part, NormedConv):
            part.norm.bias.data.abs_()  # so that ReLU leaves enough to see
    return head


class PlainInception:
    """The network of one head on examples without padding, with its blocks written branch by branch."""

    def __init__(self, head: Inception, stride: int = 7) -> None:
        self.own = head.state_dict()
        self.stride = stride
        self.training = head.training

    def convolve(self, images: Tensor, name: str, *, stride: int = 1) -> Tensor:
        """A convolution, batch normalisation and ReLU."""
        weight = self.own[f"{name}.convolve.weight"]
        sides = [size // 2 for size in weight.shape[2:]]
        images = nn.functional.conv2d(images, weight, stride=(1, stride), padding=sides)
        mean, variance = (self.own[f"{name}.norm.running_{part}"].clone() for part in ("mean", "variance"))
        weight, bias = (self.own[f"{name}.norm.{part}"] for part in ("weight", "bias"))
        return nn.functional.batch_norm(images, mean, variance, weight, bias, training=self.training, eps=1e-3).relu()

    @staticmethod
    def halve(images: Tensor) -> Tensor:
        centres = range(0, images.shape[-1], 2)
        return torch.stack([images[..., max(place - 1, 0) : place + 2].amax(dim=-1) for place in centres], dim=-1)

    def block(self, images: Tensor, name: str) -> Tensor:
        tokens, width = images.shape[-2:]
        rows = [images[..., max(token - 1, 0) : token + 2, :].amax(dim=-2) for token in range(tokens)]
        tall = torch.stack(rows, dim=-2)
        largest = torch.stack([tall[..., max(at - 1, 0) : at + 2].amax(dim=-1) for at in range(width)], dim=-1)
        one = self.convolve(images, f"{name}.one")
        three = self.convolve(self.convolve(images, f"{name}.before_three"), f"{name}.three")
        five = self.convolve(self.convolve(images, f"{name}.before_five"), f"{name}.five")
        return torch.cat([one, three, five, self.convolve(largest, f"{name}.pooled")], dim=1)

    def __call__(self, images: Tensor) -> Tensor:
        """(batch, channels, tokens, width) → (batch, tokens, outputs)."""
        images = self.halve(self.convolve(images, "first", stride=self.stride))
        images = self.convolve(self.convolve(images, "second"), "third")
        for stage, blocks in enumerate((2, 5, 2)):
            images = self.halve(images)
            for block in range(blocks):
                images = self.block(images, f"stages.{stage}.{block}")
        means = torch.stack([images[:, :, token].mean(dim=-1) for token in range(images.shape[2])], dim=1)
        return nn.functional.linear(means, self.own["project.weight"], self.own["project.bias"])


@pytest.mark.parametrize(("width", "stride"), [(1, 7), (20, 7), (20, 2), (33, 2), (33, 1)])
@torch.no_grad()
def test_it_is_googlenet_over_real_tokens_that_shortens_the_width_alone(width: int, stride: int) -> None:
    head = make(HeadShape(layers=3, width=width, outputs=2), stride=stride)
    states, lengths = random_states(3, 3, 6, width), (6, 4, 1)
    mask = real_tokens(*lengths)
    got = head(torch.where(mask[:, None, :, None], states, 50.0), mask)
    assert got.shape == (3, 6, 2)
    for example, length in enumerate(lengths):
        expected = PlainInception(head, stride)(states[example : example + 1, :, :length])
        assert expected.std() > 0.1  # not everything was lost on the way
        torch.testing.assert_close(got[example : example + 1, :length], expected, rtol=FLOAT32, atol=FLOAT32)


@torch.no_grad()
def test_learning_normalises_by_the_batch() -> None:
    head = make().train()
    states = random_states(2, 3, 6, 20)
    expected = PlainInception(head)(states)
    torch.testing.assert_close(head(states, real_tokens(6, 6)), expected, rtol=DEEP, atol=DEEP)


def test_padding_never_is_the_largest_of_a_tokens_neighbours() -> None:
    head = make(HeadShape(layers=1, width=1, outputs=1))
    block = head.get_submodule("stages.0.0")
    for name, value in block.named_parameters():
        value.data.fill_(float(name == "pooled.norm.weight"))
    for name, statistic in block.named_buffers():
        statistic.fill_(NO_EPSILON if "variance" in name else 0.0)
    block.get_parameter("pooled.convolve.weight").data[:, 0] = 1.0  # the way of the largest alone, of the first channel
    images = torch.zeros(1, 3, 4, 1)
    images[0, 0, :, 0] = torch.tensor([1.0, 3.0, 0.5, 100.0])
    mask = torch.tensor([[True, True, True, False]])
    pooled = block(images, mask)[0, -1, :3, 0]
    assert pooled.tolist() == pytest.approx([3.0, 3.0, 3.0], rel=FLOAT32)
    images[0, 0, :, 0] = torch.tensor([0.0, 0.0, 0.5, 100.0])
    pooled = block(images, mask)[0, -1, :3, 0]
    assert pooled.tolist() == pytest.approx([0.0, 0.5, 0.5], rel=FLOAT32)


def test_every_block_is_as_wide_as_googlenets() -> None:
    head = build_head("pooled_adapter_inception", HeadShape(layers=25, width=1024, outputs=2))
    parts = {name: part for name, part in head.named_modules() if isinstance(part, NormedConv)}
    filters = {name: len(part.norm.weight) for name, part in parts.items()}
    assert [filters[name] for name in ("first", "second", "third")] == [64, 64, 192]
    ways = ("one", "three", "five", "pooled")
    blocks = [f"stages.{stage}.{block}" for stage, count in enumerate((2, 5, 2)) for block in range(count)]
    # what the paper's table 1 calls output size of 3a, 3b, 4a to 4e, 5a, 5b, and its reductions before 3×3 and 5×5
    together = [sum(filters[f"{block}.{way}"] for way in ways) for block in blocks]
    assert together == [256, 480, 512, 512, 512, 528, 832, 832, 1024]
    assert [filters[f"{block}.before_three"] for block in blocks] == [96, 128, 96, 112, 128, 144, 160, 160, 192]
    assert [filters[f"{block}.before_five"] for block in blocks] == [16, 32, 16, 24, 24, 32, 32, 32, 48]
    assert [filters[f"{block}.one"] for block in blocks] == [64, 128, 192, 160, 128, 112, 256, 256, 384]
    assert [filters[f"{block}.five"] for block in blocks] == [32, 96, 48, 64, 64, 64, 128, 128, 128]
    assert [filters[f"{block}.pooled"] for block in blocks] == [32, 64, 64, 64, 64, 64, 128, 128, 128]
    kernels = {
        way: {parts[f"{block}.{way}"].get_parameter("convolve.weight").shape[2:] for block in blocks} for way in ways
    }
    assert kernels == {"one": {(1, 1)}, "three": {(3, 3)}, "five": {(5, 5)}, "pooled": {(1, 1)}}
    assert head.project.in_features == 1024


def test_a_scale_makes_every_map_narrower_but_never_empty() -> None:
    head = build_head("pooled_adapter_inception", SHAPE, {"scale": "0.01", "adapter": "none", "source": "mean"})
    filters = [len(part.norm.weight) for part in head.modules() if isinstance(part, NormedConv)]
    assert min(filters) == 1
    assert max(filters) == 4  # of 384
    assert head.project.in_features == 4 + 4 + 1 + 1


@pytest.mark.parametrize(("source", "adapter"), [("mix", None), ("mean", 7), ("layers", 7)])
@torch.no_grad()
def test_it_reads_the_image_that_its_source_and_adapter_make(source: Source, adapter: int | None) -> None:
    head = Inception(SHAPE, source=source, adapter=adapter, stride=2, scale=SCALE).eval()
    randomise(head)
    image = LayerImage(SHAPE, source=source, adapter=adapter)
    image.load_state_dict(head.image.state_dict())
    states = random_states(2, 3, 4, 20)
    expected = PlainInception(head, stride=2)(image(states))
    torch.testing.assert_close(head(states, real_tokens(4, 4)), expected, rtol=FLOAT32, atol=FLOAT32)


def test_tokens_see_each_other() -> None:
    head = make()
    states = random_states(1, 3, 5, 20)
    moved = states.clone()
    moved[:, :, 0] += 1.0
    changed = (head(moved, real_tokens(5)) - head(states, real_tokens(5))).abs().amax(dim=-1)[0] > FLOAT32
    assert not head.token_wise
    assert changed.tolist() == [True] * 5
