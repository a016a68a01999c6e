import math

import pytest
import torch
from torch import Tensor

from bertvision.heads import HeadShape, build_head
from bertvision.heads.dot_attention import DotAttention
from bertvision.heads.weighted_attention import WeightedAttention
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
# in units of ln 2, so that exp(qᵀ W h) is a power of 2: output vectors (1, 2) and (2, -1) make
# 1, 2, 0 and 2, -1, 5 of the first token's layers, 2, 3, 1 and -1, 1, 2 of the second's
UNIT = math.log(2)
STATES = UNIT * torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]], [[2.0, -1.0], [1.0, 0.0]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)


def make_head(weight: Tensor) -> WeightedAttention:
    head = WeightedAttention(SHAPE)
    head.load_state_dict(
        {
            "weight": weight,
            "project.weight": torch.tensor([[1.0, 2.0], [2.0, -1.0]]),
            "project.bias": torch.tensor([0.5, -2.0]),
        }
    )
    return head


def test_every_output_vector_asks_the_layers_through_the_matrix() -> None:
    # qᵀ W is (1, 1 - 2) = (1, -1) and (2, 2 + 1) = (2, 3); W q would be (3, -2) and (1, 1)
    head = make_head(torch.tensor([[1.0, 1.0], [0.0, -1.0]]))
    expected = [
        [
            # it makes 1, -1, 3 and 2, 3, 1 of the layers: weights (2, 1/2, 8) / 10.5 and (4, 8, 2) / 14
            [UNIT * (2 * 1 + 0.5 * 2 + 8 * 0) / 10.5 + 0.5, UNIT * (4 * 2 - 8 * 1 + 2 * 5) / 14 - 2],
            # … and -1, 0, 1 and 3, 5, 2: weights (1/2, 1, 2) / 3.5 and (8, 32, 4) / 44
            [UNIT * (0.5 * 2 + 1 * 3 + 2 * 1) / 3.5 + 0.5, UNIT * (-8 * 1 + 32 * 1 + 4 * 2) / 44 - 2],
        ]
    ]
    torch.testing.assert_close(head(STATES, MASK), torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_its_attention_is_what_the_layers_count_for() -> None:
    found = make_head(torch.tensor([[1.0, 1.0], [0.0, -1.0]])).layer_attention(STATES)[0]  # (layers, tokens, outputs)
    first = torch.tensor([[2 / 10.5, 0.5 / 10.5, 8 / 10.5], [0.5 / 3.5, 1 / 3.5, 2 / 3.5]])  # as above
    torch.testing.assert_close(found[:, :, 0].T, first, rtol=FLOAT32, atol=FLOAT32)
    second = torch.tensor([[4 / 14, 8 / 14, 2 / 14], [8 / 44, 32 / 44, 4 / 44]])
    torch.testing.assert_close(found[:, :, 1].T, second, rtol=FLOAT32, atol=FLOAT32)


def test_through_the_identity_it_is_dot_attention() -> None:
    head, dot = make_head(torch.eye(2)), DotAttention(SHAPE)
    dot.project.load_state_dict(head.project.state_dict())
    torch.testing.assert_close(head(STATES, MASK), dot(STATES, MASK), rtol=FLOAT32, atol=FLOAT32)


def test_the_order_of_layers_does_not_matter() -> None:
    head = make_head(torch.tensor([[1.0, 1.0], [0.0, -1.0]]))
    torch.testing.assert_close(head(STATES.flip(1), MASK), head(STATES, MASK), rtol=FLOAT32, atol=FLOAT32)


def test_the_matrix_starts_small() -> None:
    torch.manual_seed(0)
    head = WeightedAttention(HeadShape(layers=1, width=300, outputs=1))
    assert head.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert head.weight.mean().item() == pytest.approx(0.0, abs=2e-4)


@pytest.mark.parametrize(("options", "reads"), [({}, (1, 2, 3)), ({"layers": "0..3"}, (0, 1, 2, 3))])
def test_it_reads_the_embedding_output_only_if_asked_to(options: dict[str, str], reads: tuple[int, ...]) -> None:
    assert build_head("weighted_attention", HeadShape(layers=4, width=2, outputs=2), options).reads == reads
