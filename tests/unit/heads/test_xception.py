import pytest
import torch
from torch import Tensor, nn

from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape, build_head, count_parameters
from bertvision.heads.parts.convolution import NormedConv
from bertvision.heads.parts.image import LayerImage, Source
from bertvision.heads.xception import Xception
from close import EXACT, FLOAT32
from known_weights import NO_EPSILON, random_states, randomise, real_tokens

LARGE = HeadShape(layers=26, width=1024, outputs=2)
"""BERT-large as the first authors stored it, with 26 vectors for each token."""


class PlainXception:
    """The network of one head on tokens side by side, each (layers, width), out of torch's own 1-d functions."""

    def __init__(self, head: Xception) -> None:
        self.own = head.state_dict()
        self.training = head.training

    def convolve(self, tokens: Tensor, name: str, *, stride: int = 1) -> Tensor:
        """A convolution, separable where it has two weights, then batch normalisation."""
        if f"{name}.convolve.weight" in self.own:
            weight = self.own[f"{name}.convolve.weight"][:, :, 0]
            tokens = nn.functional.conv1d(tokens, weight, stride=stride, padding=weight.shape[-1] // 2)
        else:
            alone, together = (self.own[f"{name}.convolve.{part}.weight"][:, :, 0] for part in (0, 1))
            tokens = nn.functional.conv1d(tokens, alone, padding=1, groups=len(alone))
            tokens = nn.functional.conv1d(tokens, together)
        mean, variance = (self.own[f"{name}.norm.running_{part}"].clone() for part in ("mean", "variance"))
        weight, bias = (self.own[f"{name}.norm.{part}"] for part in ("weight", "bias"))
        return nn.functional.batch_norm(tokens, mean, variance, weight, bias, training=self.training, eps=1e-3)

    def halve(self, tokens: Tensor, name: str) -> Tensor:
        """Two separable convolutions, the means of three neighbours, and a shortcut around them."""
        inner = self.convolve(tokens.relu(), f"{name}.convolutions.0")
        inner = self.convolve(inner.relu(), f"{name}.convolutions.1")
        centres = range(0, inner.shape[-1], 2)
        means = torch.stack([inner[..., max(place - 1, 0) : place + 2].mean(dim=-1) for place in centres], dim=-1)
        return means + self.convolve(tokens, f"{name}.around", stride=2)

    def keep(self, tokens: Tensor, name: str) -> Tensor:
        """Three separable convolutions that are added to what they read."""
        inner = tokens
        for place in range(3):
            inner = self.convolve(inner.relu(), f"{name}.convolutions.{place}")
        return tokens + inner

    def project(self, tokens: Tensor) -> Tensor:
        return nn.functional.linear(tokens, self.own["project.weight"], self.own["project.bias"])


def weights_of(part: NormedConv) -> list[tuple[int, ...]]:
    return [tuple(value.shape) for value in part.convolve.parameters()]


def filters_of(module: nn.Module) -> list[int]:
    return [len(part.norm.weight) for part in module.modules() if isinstance(part, NormedConv)]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("width", [12, 13])
@pytest.mark.parametrize(("strides", "first", "second"), [((3,), 3, 1), ((2, 3), 2, 3), ((), 1, 1), ((3, 2, 5), 3, 2)])
@torch.no_grad()
def test_it_is_xception_along_the_width_of_each_real_token(
    width: int, strides: tuple[int, ...], first: int, second: int, *, training: bool
) -> None:
    shape = HeadShape(layers=3, width=width, outputs=2)
    head = Xception(shape, stem=(4, 5), strides=strides, entry=(4, 6), middle=2, exit=(5, 7), tail=(8, 3))
    head.train(training)
    randomise(head)
    states, mask = random_states(2, 3, 5, width), real_tokens(5, 3)
    plain = PlainXception(head)
    tokens = states.transpose(1, 2)[mask]  # (real tokens, layers, width)
    tokens = plain.convolve(tokens, "stem.0", stride=first).relu()
    tokens = plain.convolve(tokens, "stem.1", stride=second).relu()
    tokens = plain.halve(tokens, "blocks.0")
    tokens = plain.keep(plain.keep(tokens, "blocks.1"), "blocks.2")
    tokens = plain.halve(tokens, "blocks.3")
    for place in range(2):
        tokens = plain.convolve(tokens, f"tail.{place}").relu()
    got = head(torch.where(mask[:, None, :, None], states, 50.0), mask)[mask]
    torch.testing.assert_close(got, plain.project(tokens.mean(dim=-1)), rtol=FLOAT32, atol=FLOAT32)


def test_neighbours_beyond_the_edge_do_not_count_in_a_mean() -> None:
    head = Xception(HeadShape(layers=1, width=7, outputs=1), stem=(1,), entry=(1, 1)).eval()
    for name, value in head.named_parameters():
        value.data.fill_(0.0 if "around.norm" in name or name.endswith("bias") else 1.0)
    for part in head.modules():
        if isinstance(part, NormedConv):
            part.norm.running_variance.fill_(NO_EPSILON)
    for name in ("stem.0.convolve", "blocks.0.convolutions.0.convolve.0", "blocks.0.convolutions.1.convolve.0"):
        head.get_parameter(f"{name}.weight").data.copy_(torch.tensor([[[[0.0, 1.0, 0.0]]]]))  # each hands on its place
    states = torch.tensor([2.0, 9.0, 9.0, 4.0, 9.0, 9.0, 12.0]).reshape(1, 1, 1, 7)
    # every third place: 2, 4, 12; means around the first and the last of them: 3 and 8; the mean of those
    assert head(states, real_tokens(1)).item() == pytest.approx(5.5, rel=FLOAT32)


def test_the_abbreviated_network_has_the_authors_sizes_and_strides() -> None:
    head = build_head("xception", LARGE)
    parts = {name: part for name, part in head.named_modules() if isinstance(part, NormedConv)}
    assert {name: weights_of(part) for name, part in parts.items()} == {
        "stem.0": [(64, 26, 1, 3)],
        "stem.1": [(128, 64, 1, 3)],
        "blocks.0.convolutions.0": [(128, 1, 1, 3), (256, 128, 1, 1)],
        "blocks.0.convolutions.1": [(256, 1, 1, 3), (512, 256, 1, 1)],
        "blocks.0.around": [(512, 128, 1, 1)],
    }
    strides = {name: part.stride for name, part in head.named_modules() if isinstance(part, nn.Conv2d)}
    assert {name: stride for name, stride in strides.items() if stride != (1, 1)} == {
        "stem.0.convolve": (1, 3),
        "blocks.0.around.convolve": (1, 2),
    }
    assert (head.project.in_features, head.project.out_features) == (512, 2)


def test_the_abbreviated_network_has_267010_parameters_as_its_authors_counted() -> None:
    assert count_parameters(build_head("xception", LARGE)) == 267_010
    assert count_parameters(build_head("xception_skip", LARGE)) == 267_010 + 2 * 1024


def test_the_full_network_has_eight_middle_blocks_and_a_tail() -> None:
    head = build_head("xception_full", LARGE)
    assert isinstance(head, Xception)
    halved = [block.around is not None for block in head.blocks]
    assert halved == [True] * 3 + [False] * 8 + [True]
    # separable convolutions, and the one around them
    entry = [[128, 128, 128], [256, 256, 256], [728, 728, 728]]
    assert [filters_of(block) for block in head.blocks] == [*entry, *[[728, 728, 728]] * 8, [728, 1024, 1024]]
    assert filters_of(head.stem) == [32, 64]
    assert filters_of(head.tail) == [1536, 2048]
    assert round(100 * count_parameters(head) / 335.14e6, 2) == 6.18  # the authors' per cent of BERT-large


def test_the_last_layer_stands_beside_the_maps_of_the_network() -> None:
    shape = HeadShape(layers=3, width=6, outputs=4)
    head = Xception(shape, stem=(4,), entry=(4, 5), skip=True).eval()
    plain = Xception(shape, stem=(4,), entry=(4, 5)).eval()
    randomise(head)
    own = head.state_dict()
    assert own["project.weight"].shape == (4, 5 + 6)
    plain.load_state_dict(own | {"project.weight": own["project.weight"][:, :5]})
    states, mask = random_states(2, 3, 4, 6), real_tokens(4, 4)
    beside = states[:, 2] @ own["project.weight"][:, 5:].T
    torch.testing.assert_close(head(states, mask), plain(states, mask) + beside, rtol=FLOAT32, atol=FLOAT32)


def test_tokens_do_not_see_each_other_once_learnt() -> None:
    head = Xception(HeadShape(layers=3, width=9, outputs=2), stem=(4, 5), entry=(4, 6)).eval()
    randomise(head)
    states = random_states(1, 3, 5, 9)
    moved = states.clone()
    moved[:, :, 2] += 1.0
    changed = (head(moved, real_tokens(5)) != head(states, real_tokens(5))).any(dim=-1)[0]
    assert head.token_wise
    assert changed.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize(("source", "adapter"), [("mix", None), ("mean", 7), ("layers", 7)])
def test_it_reads_the_image_that_its_source_and_adapter_make(source: Source, adapter: int | None) -> None:
    shape = HeadShape(layers=3, width=9, outputs=2)
    head = Xception(shape, source=source, adapter=adapter, stem=(4, 5), entry=(4, 6)).eval()
    randomise(head)
    image = LayerImage(shape, source=source, adapter=adapter)
    image.load_state_dict(head.image.state_dict())
    inner = HeadShape(layers=3 if source == "layers" else 1, width=adapter or 9, outputs=2)
    plain = Xception(inner, stem=(4, 5), entry=(4, 6)).eval()
    plain.load_state_dict({key: value for key, value in head.state_dict().items() if not key.startswith("image.")})
    states, mask = random_states(2, 3, 4, 9), real_tokens(4, 3)
    torch.testing.assert_close(head(states, mask), plain(image(states), mask), rtol=EXACT, atol=EXACT)


def test_without_a_stem_the_first_block_reads_the_image() -> None:
    head = Xception(HeadShape(layers=3, width=6, outputs=2), stem=(), entry=(4, 5))
    assert head.get_parameter("blocks.0.around.convolve.weight").shape == (5, 3, 1, 1)
    assert head(random_states(1, 3, 4, 6), real_tokens(4)).shape == (1, 4, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"entry": "256"}, r"entry is \(256,\) and exit \(\), pairs of sizes are expected"),
        ({"entry": "none"}, r"entry is \(\) and exit \(\), pairs of sizes are expected"),
        ({"exit": "256,512,728"}, r"entry is \(256, 512\) and exit \(256, 512, 728\), pairs of sizes are expected"),
    ],
)
def test_sizes_that_are_no_pairs_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(BertVisionError, match=f"head 'xception': {message}"):
        build_head("xception", LARGE, options)


def test_the_shorter_network_looks_at_every_third_place_twice() -> None:
    head = build_head("pooled_adapter_xception", LARGE)
    strides = [part.stride for name, part in head.named_modules() if isinstance(part, nn.Conv2d) and "stem" in name]
    assert strides == [(1, 3), (1, 3)]
    assert filters_of(head.get_submodule("stem")) == [32, 64]
