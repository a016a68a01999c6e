import itertools
import math

import pytest
import torch
from torch import Tensor

from bertvision.heads import HeadShape, build_head
from bertvision.heads.encoder_attention import EncoderAttention
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=6, outputs=2)
MASK = torch.ones(2, 4, dtype=torch.bool)
ALMOST_ALL = 1 - 1e-9  # a share has to be less than 1


def make_head(dropout: float = 0.1) -> EncoderAttention:
    """A head whose every number matters: its own first ones are small, and some are 0 or 1."""
    head = EncoderAttention(SHAPE, heads=2, size=3, expand=2, dropout=dropout)
    generator = torch.Generator().manual_seed(0)
    for parameter in head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    return head.eval()


def make_states() -> Tensor:
    return torch.randn(2, 3, 4, 6, generator=torch.Generator().manual_seed(1))


def plain_norm(row: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    centred = row - row.mean()
    return centred / torch.sqrt((centred * centred).mean() + 1e-5) * weight + bias


def plain_attention(head: EncoderAttention, query: Tensor, layers: Tensor) -> Tensor:
    """What one output vector reads of the layers of one token, (layers, width), with keys and values made."""
    found = {name: value.double() for name, value in head.state_dict().items()}
    asked = found["query.weight"] @ query + found["query.bias"]
    read = []
    for part in (slice(0, 3), slice(3, 6)):  # two heads of three numbers each
        keys = [(found["key.weight"] @ layer)[part] for layer in layers]
        values = [(found["value.weight"] @ layer + found["value.bias"])[part] for layer in layers]
        odds = [math.exp(float(asked[part] @ key) / math.sqrt(3)) for key in keys]
        read.append(sum((share * value for share, value in zip(odds, values, strict=True)), torch.zeros(3)) / sum(odds))
    merged: Tensor = found["merge.weight"] @ torch.cat(read) + found["merge.bias"]
    return merged


def plain_output(head: EncoderAttention, output: int, layers: Tensor) -> float:
    """One output of one token: attention, feed-forward, each added and normalised after, then the query once more."""
    found = {name: value.double() for name, value in head.state_dict().items()}
    query = found["project.weight"][output]
    mixed = query + plain_attention(head, query, layers)
    mixed = plain_norm(mixed, found["attention_norm.weight"], found["attention_norm.bias"])
    inner = found["feed_forward.0.weight"] @ mixed + found["feed_forward.0.bias"]
    inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    token = mixed + found["feed_forward.2.weight"] @ inner + found["feed_forward.2.bias"]
    token = plain_norm(token, found["output_norm.weight"], found["output_norm.bias"])
    return float(query @ token + found["project.bias"][output])


def test_it_is_a_transformer_block_whose_query_is_the_output_vector_and_whose_keys_are_the_layers() -> None:
    head, states = make_head(), make_states()
    expected = [
        [[plain_output(head, output, window[:, token]) for output in range(2)] for token in range(4)]
        for window in states.double()
    ]
    torch.testing.assert_close(head(states, MASK), torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_its_attention_is_the_mean_over_its_heads() -> None:
    head, states = make_head(), make_states()
    found = {name: value.double() for name, value in head.state_dict().items()}
    expected = torch.zeros(2, 3, 4, 2)
    for window, token, output in itertools.product(range(2), range(4), range(2)):
        asked = found["query.weight"] @ found["project.weight"][output] + found["query.bias"]
        keys = [found["key.weight"] @ layer for layer in states[window, :, token].double()]
        for part in (slice(0, 3), slice(3, 6)):
            odds = [math.exp(float(asked[part] @ key[part]) / math.sqrt(3)) for key in keys]
            expected[window, :, token, output] += torch.tensor([odd / sum(odds) / 2 for odd in odds])
    torch.testing.assert_close(head.layer_attention(states), expected, rtol=FLOAT32, atol=FLOAT32)


def test_a_layer_whose_key_meets_the_query_is_read_alone() -> None:
    head = EncoderAttention(HeadShape(layers=3, width=2, outputs=1), heads=1, size=1, expand=1).eval()
    head.load_state_dict(
        {
            "query.weight": torch.tensor([[1.0, 0.0]]),
            "query.bias": torch.tensor([0.0]),
            "key.weight": torch.tensor([[100.0, 0.0]]),
            "value.weight": torch.tensor([[0.0, 1.0]]),
            "value.bias": torch.tensor([1.0]),
            "merge.weight": torch.tensor([[300.0], [0.0]]),
            "merge.bias": torch.tensor([0.0, 0.0]),
            "attention_norm.weight": torch.tensor([1.0, 1.0]),
            "attention_norm.bias": torch.tensor([0.0, 0.0]),
            "feed_forward.0.weight": torch.zeros(2, 2),
            "feed_forward.0.bias": torch.zeros(2),
            "feed_forward.2.weight": torch.zeros(2, 2),
            "feed_forward.2.bias": torch.tensor([7.0, 5.0]),
            "output_norm.weight": torch.tensor([1.0, 3.0]),
            "output_norm.bias": torch.tensor([0.0, 10.0]),
            "project.weight": torch.tensor([[2.0, 0.5]]),
            "project.bias": torch.tensor([0.25]),
        }
    )
    # the query 2 meets keys 100, 300, -100 of the first token and -100, 100, 300 of the second: layers 1 and 2 are read
    states = torch.tensor([[[[1.0, 9.0], [-1.0, 9.0]], [[3.0, 2.0], [1.0, 9.0]], [[-1.0, 9.0], [3.0, -2.0]]]])
    # values 3 and -1: (2 + 900, 0.5) is normalised to (1, -1), (2 - 300, 0.5) to (-1, 1)
    # with (7, 5) they are (8, 4) and (6, 6); normalised (1, -1) and (0, 0), then (1, -3 + 10) and (0, 10)
    expected = torch.tensor([[[2 * 1 + 0.5 * 7 + 0.25], [0.5 * 10 + 0.25]]])
    torch.testing.assert_close(head(states, MASK[:1, :2]), expected, rtol=FLOAT32, atol=FLOAT32)


def test_dropout_acts_on_what_is_added_while_learning_only() -> None:
    torch.manual_seed(0)
    head = EncoderAttention(SHAPE, heads=2, size=3, expand=2, dropout=ALMOST_ALL)
    head.project.weight.data = torch.tensor([[-3.0, 1.0, 3.0, -1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 12.0]])
    head.project.bias.data = torch.tensor([0.5, -2.0])
    # nothing but the query is left: its mean is 0 or 2 and its deviation √(20/6) or √20, and to normalise it again
    # changes nothing; the query times itself is 20 / √(20/6) = √120, and 12 · 10 / √20 = 12 √5
    left = torch.tensor([math.sqrt(120) + 0.5, 12 * math.sqrt(5) - 2]).expand(2, 4, 2)
    torch.testing.assert_close(head.train()(make_states(), MASK), left, rtol=FLOAT32, atol=FLOAT32)
    torch.testing.assert_close(
        make_head(ALMOST_ALL)(make_states(), MASK), make_head(0.0)(make_states(), MASK), rtol=FLOAT32, atol=FLOAT32
    )


def test_the_order_of_layers_does_not_matter() -> None:
    head, states = make_head(), make_states()
    torch.testing.assert_close(head(states.flip(1), MASK), head(states, MASK), rtol=FLOAT32, atol=FLOAT32)


def test_as_built_it_has_eight_heads_of_64_and_a_feed_forward_part_four_times_as_wide() -> None:
    head = build_head("encoder_attention", SHAPE)
    assert isinstance(head, EncoderAttention)
    assert (head.heads, head.query.out_features, head.dropout.p) == (8, 512, 0.1)
    assert head.get_parameter("feed_forward.0.weight").shape == (24, 6)


@pytest.mark.parametrize(("options", "reads"), [({}, (1, 2, 3)), ({"layers": "0..3"}, (0, 1, 2, 3))])
def test_it_reads_the_embedding_output_only_if_asked_to(options: dict[str, str], reads: tuple[int, ...]) -> None:
    assert build_head("encoder_attention", HeadShape(layers=4, width=2, outputs=2), options).reads == reads
