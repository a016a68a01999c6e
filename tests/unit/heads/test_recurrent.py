import math

import pytest
import torch
from torch import nn

from bertvision.heads import HeadShape, build_head
from bertvision.heads.recurrent import Recurrent
from close import EXACT, FLOAT32, FLOAT64
from known_weights import fill, random_states, randomise, real_tokens


def test_a_cell_that_forgets_half_at_every_layer_remembers_the_last_layer_best() -> None:
    head = Recurrent(HeadShape(layers=3, width=1, outputs=2), size=1)
    fill(
        head,
        {
            "read.weight": [0.0, 0.0, 1.0],  # fresh, update, candidate
            "read.bias": [0.0, 0.0, 0.5],
            "recall.weight": [0.0, 0.0, 0.0],
            "recall.bias": [0.0, 0.0, 0.0],
            "project.weight": [1.0, 10.0],
            "project.bias": [0.0, 7.0],
        },
    )
    states = torch.tensor([0.5, 9.0, -1.5, 9.0, 2.5, 9.0]).reshape(1, 3, 2, 1)  # the first token is (0.5, -1.5, 2.5)
    memory = 0.125 * math.tanh(1.0) + 0.25 * math.tanh(-1.0) + 0.5 * math.tanh(3.0)
    got = head(states, real_tokens(2))[0, 0].tolist()
    assert got == pytest.approx([memory, 10 * memory + 7], abs=FLOAT32)


def test_it_is_a_gated_recurrent_unit_over_the_layers_of_each_token() -> None:
    head = Recurrent(HeadShape(layers=3, width=4, outputs=2), size=5).eval()
    randomise(head)
    unit = nn.GRU(4, 5, batch_first=True)
    mine = [head.read.weight, head.recall.weight, head.read.bias, head.recall.bias]
    for its, value in zip(unit.parameters(), mine, strict=True):
        its.data.copy_(value)
    states = random_states(2, 3, 6, 4)
    tokens = states.permute(0, 2, 1, 3).reshape(12, 3, 4)  # a token is a sequence of layers
    _, last = unit(tokens)
    expected = nn.functional.linear(last[0], head.project.weight, head.project.bias).reshape(2, 6, 2)
    torch.testing.assert_close(head(states, real_tokens(6, 4)), expected, rtol=FLOAT32, atol=FLOAT32)


def test_dropout_acts_on_the_memory_while_learning_only() -> None:
    torch.manual_seed(0)
    head = Recurrent(HeadShape(layers=2, width=3, outputs=1), size=400, dropout=0.25).double()
    randomise(head)
    head.project.weight.data.fill_(1.0)
    head.project.bias.data.fill_(0.0)
    head.recall.weight.data.fill_(0.0)
    states = random_states(1, 2, 1, 3).double().expand(-1, -1, 2, -1)  # the same token twice
    first, second = head.train()(states, real_tokens(2))[0]
    assert first != second
    settled = head.eval()(states, real_tokens(2))[0]
    torch.testing.assert_close(settled[0], settled[1], rtol=FLOAT64, atol=FLOAT64)  # products of two rows
    torch.testing.assert_close(head(states, real_tokens(2))[0], settled, rtol=EXACT, atol=EXACT)
    plain = Recurrent(head.shape, size=400).double().eval()
    plain.load_state_dict(head.state_dict())
    torch.testing.assert_close(plain(states, real_tokens(2))[0], settled, rtol=EXACT, atol=EXACT)


def test_it_reads_every_layer_and_its_size_is_an_option() -> None:
    head = build_head("recurrent", HeadShape(layers=13, width=8, outputs=2), {"size": "16"})
    assert head.reads == tuple(range(13))
    assert head.get_parameter("read.weight").shape == (48, 8)
    assert head.project.in_features == 16
