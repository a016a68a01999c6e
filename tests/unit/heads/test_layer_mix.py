import pytest
import torch
from torch import Tensor

from bertvision.heads import HeadShape, build_head, count_parameters
from bertvision.heads.layer_mean import LayerMean
from bertvision.heads.layer_mix import LayerMix
from bertvision.heads.parts.pool import Gate
from close import EXACT, FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
STATES = torch.tensor([[[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [2.0, 2.0]], [[4.0, -2.0], [-1.0, 5.0]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)
ONE_TO_THREE = torch.tensor([1.0, 2.0, 3.0]).log()  # their softmax is 1/6, 2/6, 3/6


def make_head(mix: Tensor, *, gate: Gate = "softmax", layer_dropout: float = 0.0, dropout: float = 0.0) -> LayerMix:
    head = LayerMix(SHAPE, gate=gate, layer_dropout=layer_dropout, dropout=dropout)
    head.load_state_dict(
        {
            "pool.mix": mix,
            "pool.scale": torch.tensor(2.0),
            "project.weight": torch.tensor([[1.0, 2.0], [3.0, -1.0]]),
            "project.bias": torch.tensor([0.5, -2.0]),
        }
    )
    return head.eval()


def check_close(got: Tensor, expected: list[list[list[float]]]) -> None:
    torch.testing.assert_close(got, torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_the_layers_are_mixed_by_the_softmax_of_their_weights_scaled_and_projected() -> None:
    # factors 1/3, 2/3, 1: the first token is (1/3 + 4, 2/3 + 2/3 - 2) = (13/3, -2/3), the second (4/3, 6)
    # 13/3 - 4/3 + 0.5, 13 + 2/3 - 2; 4/3 + 12 + 0.5, 4 - 6 - 2
    check_close(make_head(ONE_TO_THREE)(STATES, MASK), [[[3.5, 11.6666667], [13.8333333, -4.0]]])


def test_it_starts_as_the_mean_of_the_layers() -> None:
    head, mean = LayerMix(SHAPE), LayerMean(SHAPE)
    mean.project.load_state_dict(head.project.state_dict())
    torch.testing.assert_close(head(STATES, MASK), mean(STATES, MASK), rtol=FLOAT32, atol=FLOAT32)


def test_a_softmax_needs_every_layer() -> None:
    head = make_head(torch.tensor([9.0, 0.0, -90.0]))
    assert (head.reads, head.train().reads) == ((0, 1, 2), (0, 1, 2))


def test_a_sparse_gate_leaves_layers_out() -> None:
    # sparsemax of (0.5, 0.1, -1) is (0.7, 0.3, 0); factors 1.4, 0.6, 0: the tokens are (1.4, 3.4) and (5.4, -0.2)
    # 1.4 + 6.8 + 0.5, 4.2 - 3.4 - 2; 5.4 - 0.4 + 0.5, 16.2 + 0.2 - 2
    head = make_head(torch.tensor([0.5, 0.1, -1.0]), gate="sparsemax")
    check_close(head(STATES, MASK), [[[8.7, -1.2], [5.5, 14.4]]])


def test_layers_above_the_last_that_counts_are_not_needed_any_more() -> None:
    head = make_head(torch.tensor([0.5, 0.1, -1.0]), gate="sparsemax")
    assert list(head.reads) == [0, 1]
    assert head.depth == 1


def test_while_learning_a_sparse_gate_needs_every_layer_since_a_weight_of_0_may_grow_again() -> None:
    head = make_head(torch.tensor([0.5, 0.1, -1.0]), gate="sparsemax").train()
    assert list(head.reads) == [0, 1, 2]
    assert head.depth == 2


@pytest.mark.parametrize("mix", [[-1.0, 0.5, 0.1], [0.5, -1.0, 0.1]])
def test_layers_below_the_last_that_counts_are_still_needed(mix: list[float]) -> None:
    assert make_head(torch.tensor(mix), gate="sparsemax").reads == (0, 1, 2)


def test_the_needed_layers_alone_give_the_same_outputs() -> None:
    torch.manual_seed(0)
    head = LayerMix(HeadShape(layers=13, width=48, outputs=2), gate="sparsemax").eval()
    head.pool.mix.data = torch.linspace(0.5, -1.0, 13)
    states, mask = torch.randn(2, 13, 7, 48), torch.ones(2, 7, dtype=torch.bool)
    assert head.depth == 3  # 0.5, 0.375, 0.25, 0.125: 1 + 4 · 0.125 > 1.25, and 1 + 5 · 0 < 1.25
    torch.testing.assert_close(head(states[:, :4], mask), head(states, mask), rtol=EXACT, atol=EXACT)


def test_of_some_layers_those_that_count_are_asked_for_as_the_encoder_counts() -> None:
    head = build_head("layer_mix_sparse", HeadShape(layers=6, width=2, outputs=2), {"layers": "2..4"}).eval()
    assert list(head.reads) == [2, 3, 4]
    head.get_parameter("pool.mix").data = torch.tensor([0.5, 0.1, -1.0])
    assert list(head.reads) == [2, 3]
    assert head.depth == 3


def test_a_sparse_gate_starts_as_the_mean_too() -> None:
    head, plain = LayerMix(SHAPE, gate="sparsemax"), LayerMix(SHAPE)
    plain.load_state_dict(head.state_dict())
    torch.testing.assert_close(head(STATES, MASK), plain(STATES, MASK), rtol=FLOAT32, atol=FLOAT32)


def test_with_norm_every_layer_of_a_token_is_standardised_before_it_is_mixed() -> None:
    head = LayerMix(HeadShape(layers=3, width=4, outputs=1), norm=True)
    head.load_state_dict(
        {
            "pool.mix": ONE_TO_THREE,
            "pool.scale": torch.tensor(2.0),
            "project.weight": torch.tensor([[1.0, 2.0, 3.0, 4.0]]),
            "project.bias": torch.tensor([0.5]),
        }
    )
    # means 50, 0, -10 and deviations 50, 40, 100 leave (-1.4, -0.2, 0.2, 1.4), (1, -1, 1, -1), (1.4, 0.2, -1.4, -0.2)
    layers = [[-20.0, 40.0, 60.0, 120.0], [40.0, -40.0, 40.0, -40.0], [130.0, 10.0, -150.0, -30.0]]
    states = torch.tensor(layers).reshape(1, 3, 1, 4)
    # projected 4.4, -2, -3.2; with the factors 1/3, 2/3, 1: 4.4/3 - 4/3 - 3.2 + 0.5
    check_close(head(states, MASK[:, :1]), [[[-2.5666667]]])


def test_layers_are_dropped_while_learning_only_and_the_rest_counts_for_them() -> None:
    torch.manual_seed(0)
    head = make_head(ONE_TO_THREE, layer_dropout=0.5)
    check_close(head(STATES, MASK), [[[3.5, 11.6666667], [13.8333333, -4.0]]])
    seen = {round(head.train()(STATES, MASK)[0, 0, 0].item(), 3) for _ in range(200)}
    # output vector 0 makes 5, 2, 0 of the first token's layers; twice their mean by weights 1, 2, 3, plus 0.5:
    # layers 0, 1, 2 alone 10, 4, 0; without the first 8/5, the second 10/4, the third 18/3; all, also if all drop, 3
    assert seen == {10.5, 4.5, 0.5, 2.1, 3.0, 6.5, 3.5}


def test_dropout_acts_on_the_mixture_while_learning_only() -> None:
    torch.manual_seed(0)
    head = make_head(torch.tensor([0.0, -99.0, -99.0]), dropout=0.5)
    # the first token is 2 · (1, 2), each number doubled or dropped; then x + 2 y + 0.5
    assert {round(head.train()(STATES, MASK)[0, 0, 0].item(), 3) for _ in range(64)} == {0.5, 4.5, 16.5, 20.5}
    assert head.eval()(STATES, MASK)[0, 0, 0].item() == 10.5


def test_as_built_it_drops_nothing() -> None:
    head = build_head("layer_mix", SHAPE).train()
    assert torch.equal(head(STATES, MASK), head(STATES, MASK))


def test_bert_large_has_2076_parameters_for_spans() -> None:
    assert count_parameters(LayerMix(HeadShape(layers=25, width=1024, outputs=2))) == 25 + 1 + 2 * 1024 + 2
