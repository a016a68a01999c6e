import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape, build_head
from bertvision.heads.context_conv import ContextConv
from close import EXACT, FLOAT32
from known_weights import fill, random_states, randomise, real_tokens

SHAPE = HeadShape(layers=3, width=2, outputs=2)
PADDING = 99.0


def make(
    *, vector: bool, filters: int = 1, kernel: int = 1, generator: int = 1, mask_question: bool = False
) -> ContextConv:
    """A head for tokens of a single number, whose filters are the tokens themselves."""
    head = ContextConv(
        HeadShape(layers=1, width=1, outputs=1),
        vector=vector,
        filters=filters,
        kernel=kernel,
        generator=generator,
        mask_question=mask_question,
    )
    for name, value in head.named_parameters():
        value.data.fill_(0.0 if "bias" in name else 1.0)
    return head


def numbers(*rows: list[float]) -> Tensor:
    """Examples of tokens of a single number each, as states."""
    return torch.tensor(rows)[:, None, :, None]


def plain_context_conv(head: ContextConv, tokens: Tensor) -> Tensor:
    """The definition, written out for one example without padding, (tokens, width)."""
    own = head.state_dict()
    length, width = tokens.shape
    weight, bias = own["generate.weight"], own["generate.bias"]
    reach = weight.shape[2] // 2
    maps = torch.zeros(length, len(weight))
    for token, number in product(range(length), range(len(weight))):
        near = [at for at in range(token - reach, token + reach + 1) if 0 <= at < length]
        total = bias[number] + sum(weight[number, :, at - token + reach] @ tokens[at] for at in near)
        maps[token, number] = max(total.item(), 0.0)
    laid = torch.zeros(head.filters, head.kernel, width)
    if "spread.weight" in own:
        vector = [0.0, *maps.amax(dim=0).tolist(), 0.0]
        for number, place, at in product(range(head.filters), range(head.kernel), range(width)):
            taps = own["spread.weight"][number * head.kernel + place, 0].tolist()
            shift = own["spread.bias"][number * head.kernel + place].item()
            laid[number, place, at] = sum(tap * vector[at + step] for step, tap in enumerate(taps)) + shift
    else:
        for number, place in product(range(head.filters), range(head.kernel)):
            stretch = [token for token in range(length) if math.floor(token / length * head.kernel + 1e-9) == place]
            if stretch:
                laid[number, place] = maps[stretch, number * width : (number + 1) * width].mean(dim=0)
    found = torch.zeros(length, head.filters)
    before = math.ceil(head.kernel / 2) - 1  # an even kernel reaches one further to the right
    for token, number, place in product(range(length), range(head.filters), range(head.kernel)):
        if 0 <= token + place - before < length:
            found[token, number] += tokens[token + place - before] @ laid[number, place]
    scaled = found / math.sqrt(head.kernel * width)
    return nn.functional.linear(scaled, own["project.weight"], own["project.bias"])


def last_layer(*tokens: tuple[float, float]) -> Tensor:
    """Three layers, of which the last has these tokens and the others have none of them."""
    last = torch.tensor(tokens)
    return torch.stack([last + 5.0, last * -3.0, last])[None]


def test_filters_are_the_means_of_maps_over_stretches_of_tokens() -> None:
    head = ContextConv(SHAPE, vector=False, filters=2, kernel=2, generator=1)
    fill(
        head,
        {
            "generate.weight": [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
            "generate.bias": [0.0, -1.0, 1.0, 10.0],
            "project.weight": [2.0, 0.0, 0.0, -1.0],
            "project.bias": [1.0, 0.0],
        },
    )
    states = last_layer((1, 2), (3, 1), (-1, 4))
    # maps of the first filter: (1, 1), (3, 0), (0, 3); its places: (2, 1/2) of two tokens, (0, 3) of one
    # laid over this token and the next: 3 + 3, 6.5 + 12, 0 + 0
    # the second filter is (1, 10) at both places: 21 + 13, 13 + 39, 39 + 0; all over √(2 · 2)
    expected = [[2 * 3.0 + 1, -17.0], [2 * 9.25 + 1, -26.0], [1.0, -19.5]]
    torch.testing.assert_close(head(states, real_tokens(3))[0], torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_a_context_vector_of_the_largest_values_is_spread_to_filters() -> None:
    head = ContextConv(SHAPE, vector=True, filters=2, kernel=2, generator=1)
    fill(
        head,
        {
            "generate.weight": [1.0, 0.0, 0.0, 1.0],
            "generate.bias": [0.0, -1.0],
            # first place of the first filter, its second place; the second filter is 1 and 2 everywhere
            "spread.weight": [1.0, 10.0, 100.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            "spread.bias": [0.0, -1.0, 1.0, 2.0],
            "project.weight": [1.0, 0.0, 0.0, -2.0],
            "project.bias": [0.0, 1.0],
        },
    )
    states = last_layer((1, 2), (3, 1), (-1, 3))
    # maps (1, 1), (3, 0), (0, 2): the vector is (3, 2); the first filter is (230, 23), (2, 1)
    # laid over this token and the next: 276 + 7, 713 + 1, -161; the second one: 3 + 8, 4 + 4, 2; all over √(2 · 2)
    expected = [[141.5, -10.0], [357.0, -7.0], [-80.5, -1.0]]
    torch.testing.assert_close(head(states, real_tokens(3))[0], torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("vector", [True, False])
@pytest.mark.parametrize(("kernel", "generator"), [(1, 1), (2, 3), (3, 3), (6, 5)])
@torch.no_grad()
def test_any_size_of_filter_and_any_length_follow_the_definition(kernel: int, generator: int, *, vector: bool) -> None:
    shape = HeadShape(layers=2, width=3, outputs=2)
    head = ContextConv(shape, vector=vector, filters=2, kernel=kernel, generator=generator)
    randomise(head)
    lengths = (8, 6, 4, 2, 1)
    mask = real_tokens(*lengths)
    states = random_states(5, 2, 8, 3)
    got = head(torch.where(mask[:, None, :, None], states, 50.0), mask)
    for example, length in enumerate(lengths):
        expected = plain_context_conv(head, states[example, -1, :length])
        torch.testing.assert_close(got[example, :length], expected, rtol=FLOAT32, atol=FLOAT32)


def test_a_kernel_of_three_looks_at_both_neighbours_and_one_of_two_at_the_next() -> None:
    # both examples have the same filters, all of them 3: the largest number is 3
    states = numbers([1.0, 0.0, 0.0, 3.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0, 0.0, 1.0])
    reached = {
        2: [[3, 0, 9, 9, 0, 0], [0, 9, 9, 0, 3, 3]],
        3: [[3, 3, 9, 9, 9, 0], [0, 9, 9, 9, 3, 3]],
        4: [[3, 12, 9, 9, 9, 0], [9, 9, 9, 12, 3, 3]],
    }
    for kernel, expected in reached.items():
        got = make(vector=True, kernel=kernel)(states, real_tokens(6, 6))[..., 0] * math.sqrt(kernel)
        torch.testing.assert_close(got, torch.tensor(expected).float(), rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize(
    ("tokens", "filters"),
    [
        ([2.0], [2, 0, 0]),
        ([2.0, 3.0], [2, 3, 0]),
        ([2.0, 3.0, 5.0], [2, 3, 5]),
        ([2.0, 4.0, 5.0, 7.0], [3, 5, 7]),
        ([2.0, 4.0, 5.0, 7.0, 8.0, 12.0], [3, 6, 10]),
    ],
)
def test_stretches_are_equally_long_and_a_short_example_leaves_places_empty(
    tokens: list[float], filters: list[float]
) -> None:
    rest = [0.0] * (6 - len(tokens))
    states = numbers([*tokens, *(PADDING for _ in rest)])
    got = make(vector=False, kernel=3)(states, real_tokens(6) & (torch.arange(6) < len(tokens)))[0, :, 0] * math.sqrt(3)
    around = [0.0, *tokens, 0.0]
    expected = [sum(f * t for f, t in zip(filters, around[at : at + 3], strict=True)) for at in range(len(tokens))]
    assert got[: len(tokens)].tolist() == pytest.approx(expected, rel=FLOAT32)


@pytest.mark.parametrize("vector", [True, False])
def test_another_example_makes_other_filters_for_the_same_tokens(*, vector: bool) -> None:
    head = ContextConv(SHAPE, vector=vector, kernel=2, generator=1)
    randomise(head)
    states = random_states(1, 3, 9, 2).expand(2, -1, -1, -1).clone()
    states[1, :, 8] += 9.0  # far from the first tokens, which no convolution of fixed filters would tell apart
    got = head(states, real_tokens(9, 9))
    assert ((got[0] - got[1]).abs().amax(dim=-1) > FLOAT32).tolist() == [True] * 9
    torch.testing.assert_close(head(states[1:], real_tokens(9)), got[1:], rtol=FLOAT32, atol=FLOAT32)


def test_a_hidden_question_is_seen_by_no_filter_but_its_first_token_is() -> None:
    head = make(vector=False, mask_question=True)  # the filter of an example is the mean of its tokens
    mask = real_tokens(4, 3, 3)
    context = torch.tensor([[False, False, True, True], [False, True, False, True], [False] * 4])
    states = numbers([5.0, 3.0, 2.0, 6.0], [5.0, 3.0, 1.0, PADDING], [5.0, 3.0, 1.0, PADDING])
    got = head(states, mask, context)[..., 0]
    assert got[0].tolist() == pytest.approx([20.0, 0.0, 8.0, 24.0])  # 4 times each token, the question's 3 hidden
    assert got[1, :3].tolist() == pytest.approx([15.0, 9.0, 0.0])
    assert got[2, :3].tolist() == pytest.approx([15.0, 9.0, 3.0])  # without a context nothing is hidden


@pytest.mark.parametrize("mask_question", [True, False])
def test_nothing_is_hidden_where_nobody_knows_the_context_or_nobody_asks(*, mask_question: bool) -> None:
    head = make(vector=False, mask_question=mask_question)
    context = None if mask_question else torch.tensor([[False, False, True]])
    got = head(numbers([5.0, 3.0, 1.0]), real_tokens(3), context)
    assert got.flatten().tolist() == pytest.approx([15.0, 9.0, 3.0])


def test_a_hidden_question_still_makes_the_filters() -> None:
    head = make(vector=True, mask_question=True)
    context = torch.tensor([[False, False, True]])
    for asked, expected in ((3.0, 6.0), (10.0, 20.0)):  # the largest number times the context's 2
        got = head(numbers([1.0, asked, 2.0]), real_tokens(3), context)
        assert got[0, 2].item() == pytest.approx(expected)


def test_only_the_last_layer_is_asked_for() -> None:
    head = build_head("context_conv", HeadShape(layers=3, width=2, outputs=2))
    randomise(head)
    states = random_states(2, 3, 5, 2)
    assert head.reads == (2,)
    whole = head(states, real_tokens(5, 3))
    torch.testing.assert_close(head(states[:, [2]], real_tokens(5, 3)), whole, rtol=EXACT, atol=EXACT)


def test_the_sizes_are_document_001s() -> None:
    shape = HeadShape(layers=13, width=768, outputs=2)
    simple, vector = (build_head(name, shape) for name in ("context_conv_simple", "context_conv"))
    assert simple.get_parameter("generate.weight").shape == (3072, 768, 5)
    assert vector.get_parameter("generate.weight").shape == (768, 768, 5)
    assert vector.get_parameter("spread.weight").shape == (4 * 6, 1, 3)
    assert simple.project.in_features == vector.project.in_features == 4
    assert not vector.token_wise


def test_a_generator_without_a_middle_is_refused() -> None:
    with pytest.raises(BertVisionError, match="head 'context_conv': generator is 4, an odd number is expected"):
        build_head("context_conv", SHAPE, {"generator": "4"})
