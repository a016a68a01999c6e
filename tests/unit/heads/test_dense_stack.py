import pytest
import torch
from torch import nn

from bertvision.heads import HeadShape, build_head
from bertvision.heads.dense_stack import DenseStack
from close import EXACT, FLOAT32
from known_weights import fill, random_states, randomise, real_tokens

FIRST_BLOCK = {
    "blocks.0.0.weight": [1.0, 0.0, 0.0, 3.0],
    "blocks.0.0.bias": [0.0, 1.0],
    "blocks.0.1.weight": [2.0, 3.0],
    "blocks.0.1.bias": [5.0, -4.0],
}
STATES = torch.tensor([[9.0, -9.0], [-7.0, 7.0], [1.0, 2.0]]).reshape(1, 3, 1, 2)
"""Three layers of one token."""


def test_a_block_is_a_linear_map_then_layer_norm_then_relu() -> None:
    head = DenseStack(HeadShape(layers=3, width=2, outputs=2), blocks=1).eval()
    fill(head, FIRST_BLOCK | {"project.weight": [1.0, 10.0, -2.0, 0.0], "project.bias": [0.5, 0.0]})
    # linear (1, 7); normed (-1, 1), of deviation 3; times (2, 3) and plus (5, -4): (3, -1); at least 0: (3, 0)
    assert head(STATES, real_tokens(1))[0, 0].tolist() == pytest.approx([3.5, -6.0], abs=FLOAT32)


def test_a_second_block_reads_the_first() -> None:
    head = DenseStack(HeadShape(layers=3, width=2, outputs=2), blocks=2).eval()
    second = {
        "blocks.1.0.weight": [1.0, 0.0, -1.0, 5.0],
        "blocks.1.0.bias": [0.0, 1.0],
        "blocks.1.1.weight": [4.0, 1.0],
        "blocks.1.1.bias": [0.0, 3.0],
    }
    fill(head, FIRST_BLOCK | second | {"project.weight": [1.0, 10.0, 0.0, -1.0], "project.bias": [0.5, 0.0]})
    # (3, 0) from the first block; linear (3, -2); normed (1, -1); scaled and shifted (4, 2)
    assert head(STATES, real_tokens(1))[0, 0].tolist() == pytest.approx([24.5, -2.0], abs=FLOAT32)


def test_the_blocks_are_as_wide_as_the_encoder_unless_a_size_is_given() -> None:
    shape = HeadShape(layers=3, width=6, outputs=2)
    widths = {
        None: [(6, 6), (6, 6), (6, 6), (6, 6)],
        4: [(4, 6), (4, 4), (4, 4), (4, 4)],
    }
    for size, expected in widths.items():
        head = build_head("dense_stack", shape, {} if size is None else {"size": size})
        maps = [part for part in head.modules() if isinstance(part, nn.Linear)]
        assert [tuple(part.weight.shape) for part in maps] == [*expected, (2, size or 6)]
        assert head(random_states(1, 3, 5, 6), real_tokens(5)).shape == (1, 5, 2)


def test_only_the_last_layer_is_asked_for() -> None:
    head = build_head("dense_stack", HeadShape(layers=3, width=6, outputs=2)).eval()
    randomise(head)
    states = random_states(2, 3, 5, 6)
    assert head.reads == (2,)
    whole = head(states, real_tokens(5, 3))
    torch.testing.assert_close(head(states[:, [2]], real_tokens(5, 3)), whole, rtol=EXACT, atol=EXACT)


def test_dropout_acts_while_learning_only() -> None:
    torch.manual_seed(0)
    head = DenseStack(HeadShape(layers=1, width=2, outputs=1), blocks=1, size=400, dropout=0.25)
    head.get_parameter("blocks.0.1.weight").data.fill_(0.0)
    head.get_parameter("blocks.0.1.bias").data.fill_(1.0)  # the block gives 400 ones
    head.project.weight.data.fill_(1.0)
    states = torch.ones(1, 1, 2, 2)
    kept = head.train()(states, real_tokens(2))[0, :, 0] * 0.75  # what is kept is scaled up, so that the mean stays
    assert kept[0] != kept[1]
    assert torch.all((kept > 250) & (kept < 350))
    torch.testing.assert_close(kept, kept.round(), rtol=FLOAT32, atol=FLOAT32)
    assert head.eval()(states, real_tokens(2)).tolist() == [[[400.0], [400.0]]]
