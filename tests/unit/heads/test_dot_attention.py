import math

import pytest
import torch
from torch import Tensor

from bertvision.heads import HeadShape, build_head
from bertvision.heads.dot_attention import DotAttention
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
# in units of ln 2, so that exp(q · h) is a power of 2: output vectors (1, 2) and (2, -1) make
# 1, 2, 0 and 2, -1, 5 of the first token's layers, 2, 3, 1 and -1, 1, 2 of the second's
UNIT = math.log(2)
STATES = UNIT * torch.tensor([[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]], [[2.0, -1.0], [1.0, 0.0]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)


def make_head() -> DotAttention:
    head = DotAttention(SHAPE)
    # all there is: the query of an output is its own vector
    head.load_state_dict(
        {"project.weight": torch.tensor([[1.0, 2.0], [2.0, -1.0]]), "project.bias": torch.tensor([0.5, -2.0])}
    )
    return head


def test_every_output_vector_asks_the_layers_of_every_token() -> None:
    expected = [
        [
            # the weights are (2, 4, 1) / 7 and (4, 1/2, 32) / 36.5
            [UNIT * (2 * 1 + 4 * 2 + 1 * 0) / 7 + 0.5, UNIT * (4 * 2 - 0.5 * 1 + 32 * 5) / 36.5 - 2],
            # … and (4, 8, 2) / 14 and (1/2, 2, 4) / 6.5
            [UNIT * (4 * 2 + 8 * 3 + 2 * 1) / 14 + 0.5, UNIT * (-0.5 * 1 + 2 * 1 + 4 * 2) / 6.5 - 2],
        ]
    ]
    torch.testing.assert_close(make_head()(STATES, MASK), torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_its_attention_is_what_the_layers_count_for() -> None:
    found = make_head().layer_attention(STATES)  # (batch, layers, tokens, outputs)
    expected = torch.tensor([[2 / 7, 4 / 7, 1 / 7], [4 / 14, 8 / 14, 2 / 14]])  # of the first output, as above
    torch.testing.assert_close(found[0, :, :, 0].T, expected, rtol=FLOAT32, atol=FLOAT32)
    second = torch.tensor([[4 / 36.5, 0.5 / 36.5, 32 / 36.5], [0.5 / 6.5, 2 / 6.5, 4 / 6.5]])
    torch.testing.assert_close(found[0, :, :, 1].T, second, rtol=FLOAT32, atol=FLOAT32)


def test_layers_that_agree_with_an_output_vector_drown_the_others() -> None:
    head, loud = make_head(), 100 * STATES
    # 200 ln 2 = 138.63 and 500 ln 2 = 346.57; 300 ln 2 = 207.94 and 200 ln 2
    best: Tensor = torch.tensor([[[200.0, 500.0], [300.0, 200.0]]]) * UNIT + torch.tensor([0.5, -2.0])
    torch.testing.assert_close(head(loud, MASK), best, rtol=FLOAT32, atol=FLOAT32)


def test_the_order_of_layers_does_not_matter() -> None:
    head = make_head()
    torch.testing.assert_close(head(STATES.flip(1), MASK), head(STATES, MASK), rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize(("options", "reads"), [({}, (1, 2, 3)), ({"layers": "0..3"}, (0, 1, 2, 3))])
def test_it_reads_the_embedding_output_only_if_asked_to(options: dict[str, str], reads: tuple[int, ...]) -> None:
    assert build_head("dot_attention", HeadShape(layers=4, width=2, outputs=2), options).reads == reads
