import math

import pytest
import torch

from bertvision.heads import HeadShape, PooledOutput
from close import FLOAT32


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("tanh", math.tanh(3.0) + 2.0 * math.tanh(-1.0) + 0.5),
        ("relu", 3.5),
        # gelu(x) = x · Φ(x): Φ(3) = 0.9986501, Φ(-1) = 0.1586553
        ("gelu", 3.0 * 0.9986501 + 2.0 * -1.0 * 0.1586553 + 0.5),
    ],
)
def test_the_dense_layer_is_activated_and_projected(activation: str, expected: float) -> None:
    head = PooledOutput(HeadShape(layers=2, width=2, outputs=1), activation=activation)  # type: ignore[arg-type]  # from a list
    head.dense.weight.data = torch.tensor([[1.0, 1.0], [1.0, -1.0]])
    head.dense.bias.data = torch.tensor([0.0, 0.0])
    head.project.weight.data = torch.tensor([[1.0, 2.0]])
    head.project.bias.data = torch.tensor([0.5])
    states = torch.tensor([[[[9.0, 9.0]], [[1.0, 2.0]]]])  # the last layer's token is (1, 2): dense gives (3, -1)
    got = head(states, torch.ones(1, 1, dtype=torch.bool))
    assert got.item() == pytest.approx(expected, abs=FLOAT32)


def test_bert_base_has_592130_parameters_for_two_labels() -> None:
    head = PooledOutput(HeadShape(layers=13, width=768, outputs=2))
    assert sum(value.numel() for value in head.parameters()) == 768 * 768 + 768 + 2 * 768 + 2
    assert head.reads == (-1,)
