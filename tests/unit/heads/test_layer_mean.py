import torch

from bertvision.heads import HeadShape, build_head
from bertvision.heads.layer_mean import LayerMean
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
STATES = torch.tensor([[[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [2.0, 2.0]], [[4.0, -2.0], [-1.0, 5.0]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)


def test_the_mean_of_the_layers_is_projected() -> None:
    head = LayerMean(SHAPE)
    head.load_state_dict(
        {"project.weight": torch.tensor([[1.0, 2.0], [3.0, -1.0]]), "project.bias": torch.tensor([0.5, -2.0])}
    )
    # the means are (5, 1) / 3 and (4, 6) / 3: 7/3 + 0.5 and 14/3 - 2; 16/3 + 0.5 and 6/3 - 2
    expected = torch.tensor([[[2.8333333, 2.6666667], [5.8333333, 0.0]]])
    torch.testing.assert_close(head(STATES, MASK), expected, rtol=FLOAT32, atol=FLOAT32)


def test_every_layer_is_asked_for() -> None:
    assert LayerMean(SHAPE).reads == (0, 1, 2)


def test_dropout_acts_on_the_mean_while_learning_only() -> None:
    torch.manual_seed(0)
    head = LayerMean(HeadShape(layers=2, width=1, outputs=1), dropout=0.5)
    head.project.weight.data.fill_(1.0)
    states, mask = torch.tensor([3.0, 5.0]).reshape(1, 2, 1, 1), MASK[:, :1]
    # the mean is 4, doubled or dropped; dropping layers one by one would also give 3 and 5
    assert {head.train()(states, mask).item() for _ in range(64)} == {0.0, 8.0}
    assert head.eval()(states, mask).item() == 4.0


def test_as_built_it_drops_nothing() -> None:
    head = build_head("layer_mean", SHAPE).train()
    assert torch.equal(head(STATES, MASK), head(STATES, MASK))
