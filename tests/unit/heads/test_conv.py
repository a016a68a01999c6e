from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape, build_head
from bertvision.heads.conv import Conv
from bertvision.heads.parts.image import LayerImage, Source
from close import EXACT, FLOAT32
from known_weights import fill, random_states, randomise, real_tokens

STATES = torch.tensor(
    [
        [[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]],
        [[4.0, 5.0, 6.0], [0.0, 1.0, 0.0]],
        [[7.0, 8.0, 9.0], [0.0, 2.0, 0.0]],
    ]
)[None]
"""One example: three layers of two tokens."""


def plain_convolution(image: Tensor, weight: Tensor, bias: Tensor, *, stride: int, dilation: int) -> Tensor:
    """One convolution and ReLU of an image, (channels, tokens, width), written out: what lies outside is nothing."""
    (filters, _, ngram, kernel), (_, tokens, width) = weight.shape, image.shape
    places = list(range(0, width, stride))
    found = torch.zeros(filters, tokens, len(places))
    for number, token, (index, place) in product(range(filters), range(tokens), enumerate(places)):
        total = bias[number].item()
        for row, column in product(range(ngram), range(kernel)):
            at = token + row - ngram // 2, place + dilation * (column - kernel // 2)
            if 0 <= at[0] < tokens and 0 <= at[1] < width:
                total += (image[:, at[0], at[1]] @ weight[number, :, row, column]).item()
        found[number, token, index] = max(total, 0.0)
    return found


def test_a_filter_runs_along_the_width_with_the_layers_as_channels() -> None:
    head = Conv(HeadShape(layers=3, width=3, outputs=2), filters=(1,), kernel=3, stride=1, dropout=0.0)
    fill(
        head,
        {
            # the place before of the lowest layer, ten times this place of the middle one, the place after of the last
            "convolutions.0.weight": [1.0, 0.0, 0.0, 0.0, 10.0, 0.0, 0.0, 0.0, 100.0],
            "convolutions.0.bias": [-100.0],
            "project.weight": [1.0, 2.0, 4.0, 0.0, 0.0, 1.0],
            "project.bias": [3.0, -1.0],
        },
    )
    # first token: 840, 951, 62 less 100, at least 0: 740, 851, 0; second token: 200, 10, 0 become 100, 0, 0
    got = head(STATES, real_tokens(2))
    assert got.tolist() == [[[740.0 + 2 * 851.0 + 3.0, -1.0], [103.0, -1.0]]]


def test_a_stride_skips_places_and_dilation_looks_further() -> None:
    head = Conv(HeadShape(layers=1, width=5, outputs=3), filters=(1,), kernel=3, stride=2, dilation=2)
    fill(
        head,
        {
            "convolutions.0.weight": [1.0, 10.0, 100.0],
            "convolutions.0.bias": [0.0],
            "project.weight": torch.eye(3).flatten().tolist(),
            "project.bias": [0.0, 0.0, 0.5],
        },
    )
    states = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).reshape(1, 1, 1, 5)
    assert head.eval()(states, real_tokens(1)).tolist() == [[[310.0, 531.0, 53.5]]]


@pytest.mark.parametrize(("ngram", "dilation"), [(1, 1), (1, 2), (3, 1), (5, 2)])
def test_convolutions_follow_each_other_and_no_example_sees_padding(ngram: int, dilation: int) -> None:
    shape = HeadShape(layers=3, width=7, outputs=2)
    head = Conv(shape, filters=(3, 2), kernel=3, stride=2, dilation=dilation, ngram=ngram).eval()
    randomise(head)
    states, lengths = random_states(2, 3, 4, 7), (4, 2)
    got = head(torch.where(real_tokens(*lengths)[:, None, :, None], states, 50.0), real_tokens(*lengths))
    for example, length in enumerate(lengths):
        image = states[example, :, :length]
        for layer in range(2):
            weight, bias = (head.get_parameter(f"convolutions.{layer}.{part}") for part in ("weight", "bias"))
            image = plain_convolution(image, weight, bias, stride=2, dilation=dilation)
        flat = torch.stack([image[:, token].flatten() for token in range(length)])  # channels, then places
        expected = flat @ head.project.weight.T + head.project.bias
        torch.testing.assert_close(got[example, :length], expected, rtol=FLOAT32, atol=FLOAT32)


def test_a_bias_in_padding_does_not_reach_the_next_convolution() -> None:
    head = Conv(HeadShape(layers=1, width=1, outputs=1), filters=(1, 1), kernel=1, stride=1, ngram=3, dropout=0.0)
    for value in head.parameters():
        value.data.fill_(1.0)
    states = torch.tensor([1.0, 2.0, 50.0]).reshape(1, 1, 3, 1)
    mask = torch.tensor([[True, True, False]])
    # 1 + 2 + 1 and 1 + 2 + 1, then 4 + 4 + 1 and 4 + 4 + 1, then 1 more; padding would have had 2 + 1
    assert head(states, mask)[0, :2].tolist() == [[10.0], [10.0]]


@pytest.mark.parametrize(
    ("ngram", "filters", "reached"), [(1, (3, 3, 3), [3]), (3, (3,), [2, 3, 4]), (3, (3, 3), [1, 2, 3, 4, 5])]
)
def test_only_n_by_n_mixes_tokens_and_each_convolution_reaches_further(
    ngram: int, filters: tuple[int, ...], reached: list[int]
) -> None:
    head = Conv(HeadShape(layers=3, width=6, outputs=2), filters=filters, kernel=3, stride=1, ngram=ngram).eval()
    randomise(head)
    for name, value in head.named_parameters():
        value.data = value.data.abs() if "convolutions" in name else value.data  # so that ReLU hides nothing
    states = random_states(1, 3, 7, 6).abs()
    moved = states.clone()
    moved[:, :, 3] += 1.0
    changed = (head(moved, real_tokens(7)) - head(states, real_tokens(7))).abs().amax(dim=-1)[0] > FLOAT32
    assert changed.nonzero().flatten().tolist() == reached
    assert head.token_wise == (ngram == 1)


@settings(max_examples=40, deadline=None)
@given(
    width=st.integers(1, 40),
    kernel=st.sampled_from([1, 3, 5, 13]),
    stride=st.integers(1, 5),
    dilation=st.integers(1, 3),
    depth=st.integers(0, 3),
)
def test_any_width_fits(width: int, kernel: int, stride: int, dilation: int, depth: int) -> None:
    shape = HeadShape(layers=2, width=width, outputs=3)
    head = Conv(shape, filters=(2,) * depth, kernel=kernel, stride=stride, dilation=dilation)
    places = range(width)
    for _ in range(depth):
        places = places[::stride]
    assert head.project.in_features == 2 * len(places)
    assert head(torch.ones(1, 2, 4, width), real_tokens(4)).shape == (1, 4, 3)


@pytest.mark.parametrize("source", ["layers", "mix", "mean"])
@pytest.mark.parametrize("adapter", [None, 5])
def test_it_convolves_the_image_that_its_source_and_adapter_make(source: Source, adapter: int | None) -> None:
    shape = HeadShape(layers=3, width=8, outputs=2)
    head = Conv(shape, source=source, adapter=adapter, filters=(3, 2), kernel=3, stride=2).eval()
    randomise(head)
    image = LayerImage(shape, source=source, adapter=adapter)
    image.load_state_dict(head.image.state_dict())
    inner = HeadShape(layers=1 if source != "layers" else 3, width=adapter or 8, outputs=2)
    plain = Conv(inner, filters=(3, 2), kernel=3, stride=2).eval()
    assert not list(plain.image.parameters())
    plain.load_state_dict({key: value for key, value in head.state_dict().items() if not key.startswith("image.")})
    states, mask = random_states(2, 3, 4, 8), real_tokens(4, 3)
    torch.testing.assert_close(head(states, mask), plain(image(states), mask), rtol=EXACT, atol=EXACT)


def test_dropout_acts_after_every_convolution_while_learning_only() -> None:
    torch.manual_seed(0)
    head = Conv(HeadShape(layers=1, width=400, outputs=1), filters=(1,), kernel=1, stride=1, dropout=0.25)
    fill(
        head,
        {
            "convolutions.0.weight": [1.0],
            "convolutions.0.bias": [0.0],
            "project.weight": [1.0] * 400,
            "project.bias": [0.0],
        },
    )
    states = torch.ones(1, 1, 2, 400)
    kept = head.train()(states, real_tokens(2))[0, :, 0] * 0.75  # what is kept is scaled up, so that the mean stays
    assert kept[0] != kept[1]
    assert torch.all((kept > 250) & (kept < 350))
    torch.testing.assert_close(kept, kept.round(), rtol=FLOAT32, atol=FLOAT32)
    assert head.eval()(states, real_tokens(2)).tolist() == [[[400.0], [400.0]]]
    plain = Conv(head.shape, filters=(1,), kernel=1, stride=1, dropout=0.0).train()
    plain.load_state_dict(head.state_dict())
    assert plain(states, real_tokens(2)).tolist() == [[[400.0], [400.0]]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "4"}, "head 'conv': kernel is 4 and ngram 1, odd numbers are expected"),
        ({"ngram": "2"}, "head 'conv': kernel is 13 and ngram 2, odd numbers are expected"),
    ],
)
def test_a_kernel_without_a_middle_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(BertVisionError, match=message):
        build_head("conv", HeadShape(layers=3, width=8, outputs=2), options)


@pytest.mark.parametrize(
    ("name", "channels", "width"),
    [
        ("conv", 25, 1024),
        ("conv_plain", 25, 1024),
        ("conv_dilated", 25, 1024),
        ("pooled_conv", 1, 1024),
        ("mean_conv", 1, 1024),
        ("pooled_adapter_conv", 1, 386),
        ("pooled_adapter_ngram", 1, 386),
    ],
)
def test_the_named_variants_read_what_their_names_say(name: str, channels: int, width: int) -> None:
    head = build_head(name, HeadShape(layers=25, width=1024, outputs=2))
    assert isinstance(head, Conv)
    assert (head.image.channels, head.image.width) == (channels, width)
    convolutions = [part for part in head.convolutions if isinstance(part, nn.Conv2d)]
    assert {part.dilation for part in convolutions} == {(1, 2) if "dilated" in name else (1, 1)}
    assert {part.kernel_size for part in convolutions} == {(5, 5) if "ngram" in name else (1, 13)}
    assert {part.stride for part in convolutions} == {(1, 4)}  # tokens are never skipped
    assert head.dropout.p == (0.0 if "plain" in name else 0.1)
