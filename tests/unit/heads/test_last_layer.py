import pytest
import torch

from bertvision.heads import HeadShape, LastLayer
from close import FLOAT32

MASK = torch.ones(1, 2, dtype=torch.bool)


def test_the_last_layer_is_projected_and_no_other() -> None:
    head = LastLayer(HeadShape(layers=3, width=2, outputs=1))
    head.project.weight.data = torch.tensor([[2.0, -1.0]])
    head.project.bias.data = torch.tensor([0.5])
    states = torch.tensor([[[[9.0, 9.0], [9.0, 9.0]], [[7.0, 7.0], [7.0, 7.0]], [[1.0, 2.0], [3.0, -4.0]]]])
    assert head(states, MASK).tolist() == [[[0.5], [10.5]]]


def test_only_the_last_layer_is_asked_for() -> None:
    head = LastLayer(HeadShape(layers=25, width=4, outputs=2))
    states = torch.randn(1, 25, 2, 4, generator=torch.Generator().manual_seed(0))
    assert head.reads == (-1,)
    torch.testing.assert_close(head(states[:, [-1]], MASK), head(states, MASK), rtol=FLOAT32, atol=FLOAT32)


def test_bert_large_has_2050_parameters_for_spans() -> None:
    head = LastLayer(HeadShape(layers=25, width=1024, outputs=2))
    assert sum(value.numel() for value in head.parameters()) == 2050


def test_it_starts_small_and_without_bias() -> None:
    torch.manual_seed(0)
    head = LastLayer(HeadShape(layers=2, width=1000, outputs=10))
    assert head.project.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert head.project.bias.abs().max() == 0


def test_dropout_acts_on_the_states_while_learning_only() -> None:
    torch.manual_seed(0)
    head = LastLayer(HeadShape(layers=1, width=400, outputs=1), dropout=0.25)
    head.project.weight.data.fill_(1.0)
    states = torch.ones(1, 1, 2, 400)
    kept = head.train()(states, MASK) * 0.75  # what is kept is scaled up, so that the mean stays
    assert kept[0, 0] != kept[0, 1]
    assert torch.all((kept > 250) & (kept < 350))
    assert torch.allclose(kept, kept.round(), atol=FLOAT32)
    assert head.eval()(states, MASK).tolist() == [[[400.0], [400.0]]]
