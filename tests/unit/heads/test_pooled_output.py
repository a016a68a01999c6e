import pytest
import torch

from bertvision.heads import HeadShape, build_head, count_parameters
from bertvision.heads.pooled_output import Activation, PooledOutput
from close import EXACT, FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
STATES = torch.tensor([[[[9.0, 9.0], [9.0, 9.0]], [[7.0, 7.0], [7.0, 7.0]], [[1.0, 1.0], [-3.0, 1.5]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)


def make_head(activation: Activation = "tanh", dropout: float = 0.0) -> PooledOutput:
    head = PooledOutput(SHAPE, activation=activation, dropout=dropout)
    head.load_state_dict(
        {
            "dense.weight": torch.tensor([[1.0, 2.0], [0.0, -1.0]]),
            "dense.bias": torch.tensor([-1.0, 2.0]),
            "project.weight": torch.tensor([[1.0, 2.0], [3.0, -1.0]]),
            "project.bias": torch.tensor([0.5, -2.0]),
        }
    )
    return head


@pytest.mark.parametrize(
    ("activation", "first", "second"),
    [
        # dense: (1, 1) → (1 + 2 - 1, -1 + 2) = (2, 1); (-3, 1.5) → (-3 + 3 - 1, -1.5 + 2) = (-1, 0.5)
        ("tanh", (0.9640276, 0.7615942), (-0.7615942, 0.4621172)),
        ("relu", (2.0, 1.0), (0.0, 0.5)),
        ("gelu", (1.9544997, 0.8413447), (-0.1586553, 0.3457312)),  # x · Φ(x), not the approximation by tanh
    ],
)
def test_the_dense_layer_of_the_last_layer_is_activated_and_projected(
    activation: Activation, first: tuple[float, float], second: tuple[float, float]
) -> None:
    expected = [[[x + 2 * y + 0.5, 3 * x - y - 2] for x, y in (first, second)]]
    torch.testing.assert_close(make_head(activation)(STATES, MASK), torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_only_the_last_layer_is_asked_for() -> None:
    head = make_head()
    assert (head.reads, head.depth) == ((2,), 2)
    torch.testing.assert_close(head(STATES[:, [2]], MASK), head(STATES, MASK), rtol=EXACT, atol=EXACT)


def test_dropout_acts_behind_the_activation_while_learning_only() -> None:
    torch.manual_seed(0)
    head = make_head("relu", dropout=0.5)
    # the last layer's first token: relu gives (2, 1), each of them doubled or dropped, then x + 2 y + 0.5
    seen = {round(head.train()(STATES, MASK)[0, 0, 0].item(), 4) for _ in range(64)}
    assert seen == {0.5, 4.5, 8.5}
    assert head.eval()(STATES, MASK)[0, 0, 0].item() == 4.5


def test_as_built_it_drops_nothing_and_uses_tanh() -> None:
    head = build_head("pooled_output", SHAPE)
    assert isinstance(head, PooledOutput)
    assert (head.activation, head.dropout.p) == ("tanh", 0.0)


def test_the_dense_layer_starts_as_bert_starts_its_pooler() -> None:
    torch.manual_seed(0)
    head = PooledOutput(HeadShape(layers=1, width=300, outputs=2))
    assert head.dense.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert not head.dense.bias.any()


def test_bert_base_has_592130_parameters_for_two_labels() -> None:
    assert count_parameters(PooledOutput(HeadShape(layers=13, width=768, outputs=2))) == 592_130
