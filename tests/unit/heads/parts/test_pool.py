import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bertvision.heads.parts.pool import Gate, LayerPool, MeanPool, build_pool, sparsemax
from close import EXACT, FLOAT32, FLOAT64

STATES = torch.tensor([[[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [2.0, 2.0]], [[4.0, -2.0], [-1.0, 5.0]]]])
ONE_TO_THREE = torch.tensor([1.0, 2.0, 3.0]).log()  # their softmax is 1/6, 2/6, 3/6
GATES: list[Gate] = ["softmax", "sparsemax"]

scores_of_layers = st.lists(st.integers(-40, 40).map(lambda tenth: tenth / 10), min_size=1, max_size=9)


def make_pool(mix: Tensor, *, gate: Gate = "softmax", dropout: float = 0.0) -> LayerPool:
    pool = LayerPool(len(mix), gate=gate, dropout=dropout)
    pool.load_state_dict({"mix": mix, "scale": torch.tensor(2.0)})
    return pool


def plain_sparsemax(scores: list[float]) -> list[float]:
    """What is left of the scores above a threshold that is moved until they sum to 1, by halving where it may be."""
    low, high = max(scores) - 1, max(scores)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(max(score - middle, 0) for score in scores) > 1 else (low, middle)
    return [max(score - low, 0) for score in scores]


def test_layers_are_mixed_by_the_softmax_of_their_weights_and_scaled() -> None:
    # factors 1/3, 2/3, 1: (1/3 + 0 + 4, 2/3 + 2/3 - 2) and (3/3 + 4/3 - 1, -1/3 + 4/3 + 5)
    expected = torch.tensor([[[13 / 3, -2 / 3], [4 / 3, 6.0]]])
    torch.testing.assert_close(make_pool(ONE_TO_THREE)(STATES), expected, rtol=FLOAT32, atol=FLOAT32)


def test_a_sparse_gate_leaves_layers_out() -> None:
    # sparsemax of (0.5, -1, 0.1) is (0.7, 0, 0.3); factors 1.4, 0, 0.6
    pool = make_pool(torch.tensor([0.5, -1.0, 0.1]), gate="sparsemax")
    expected = torch.tensor([[[1.4 + 2.4, 2.8 - 1.2], [4.2 - 0.6, -1.4 + 3.0]]])
    torch.testing.assert_close(pool(STATES), expected, rtol=FLOAT32, atol=FLOAT32)
    assert pool.weights()[1] == 0


def test_what_it_learnt_is_told_for_all_layers_also_while_some_are_dropped() -> None:
    learned = make_pool(torch.tensor([0.5, 0.1, -1.0]), gate="sparsemax", dropout=0.9).learned()
    torch.testing.assert_close(learned, torch.tensor([1.4, 0.6, 0.0]), rtol=FLOAT32, atol=FLOAT32)
    learned = make_pool(ONE_TO_THREE, dropout=0.9).train().learned()
    torch.testing.assert_close(learned, torch.tensor([1 / 3, 2 / 3, 1.0]), rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("gate", GATES)
def test_a_pool_starts_as_the_mean(gate: Gate) -> None:
    pool = LayerPool(3, gate=gate)
    assert not pool.mix.any()
    assert pool.scale == 1
    torch.testing.assert_close(pool(STATES), STATES.mean(dim=1), rtol=FLOAT32, atol=FLOAT32)


def test_only_a_sparse_gate_at_rest_needs_fewer_layers() -> None:
    mix = torch.tensor([0.5, 0.1, -1.0, -2.0])
    assert list(make_pool(mix, gate="sparsemax").eval().needs) == [0, 1]
    assert list(make_pool(mix, gate="sparsemax").train().needs) == [0, 1, 2, 3]
    assert list(make_pool(mix).eval().needs) == [0, 1, 2, 3]


def test_a_layer_that_does_not_count_is_still_needed_below_one_that_does() -> None:
    pool = make_pool(torch.tensor([-1.0, 0.5, 0.1, -2.0]), gate="sparsemax").eval()
    assert list(pool.needs) == [0, 1, 2]


@pytest.mark.parametrize("given_layers", [2, 3])
def test_a_sparse_gate_at_rest_mixes_the_lowest_layers_with_or_without_the_others(given_layers: int) -> None:
    # sparsemax of (0.5, 0.1, -1) is (0.7, 0.3, 0); factors 1.4, 0.6, 0
    pool = make_pool(torch.tensor([0.5, 0.1, -1.0]), gate="sparsemax").eval()
    expected = torch.tensor([[[1.4, 2.8 + 0.6], [4.2 + 1.2, -1.4 + 1.2]]])
    torch.testing.assert_close(pool(STATES[:, :given_layers]), expected, rtol=FLOAT32, atol=FLOAT32)


def test_norm_standardises_every_layer_of_every_token() -> None:
    pool = LayerPool(2, norm=True)
    # means 50 and -10, deviations 50 and 100
    states = torch.tensor([[-20.0, 40.0, 60.0, 120.0], [130.0, 10.0, -150.0, -30.0]]).reshape(1, 2, 1, 4)
    # the mean of (-1.4, -0.2, 0.2, 1.4) and (1.4, 0.2, -1.4, -0.2)
    expected = torch.tensor([[[0.0, 0.0, -0.6, 0.6]]])
    torch.testing.assert_close(pool(states), expected, rtol=FLOAT32, atol=FLOAT32)


def test_what_comes_out_is_as_precise_as_what_goes_in() -> None:
    assert make_pool(ONE_TO_THREE)(STATES.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("gate", GATES)
def test_layers_are_dropped_while_learning_only(gate: Gate) -> None:
    torch.manual_seed(0)
    pool = LayerPool(4, gate=gate, dropout=0.25)
    dropped = torch.stack([pool.train().weights() == 0 for _ in range(2000)]).float().mean(dim=0)
    # a quarter of the time each, less the times when all of them would be, (1/4)⁴
    torch.testing.assert_close(dropped, torch.full((4,), 0.25 - 0.25**4), rtol=EXACT, atol=0.03)
    assert torch.equal(pool.eval().weights(), torch.full((4,), 0.25))


@pytest.mark.parametrize("gate", GATES)
def test_layers_are_never_all_dropped_and_the_rest_sums_to_1(gate: Gate) -> None:
    torch.manual_seed(0)
    pool = make_pool(torch.tensor([0.3, 0.2, 0.1]), gate=gate, dropout=0.9).train()
    weights = torch.stack([pool.weights() for _ in range(300)])
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(300), rtol=FLOAT32, atol=FLOAT32)
    # one layer alone, two, and all three, which stand in for none
    assert set((weights > 0).sum(dim=1).tolist()) == {1, 2, 3}


@pytest.mark.parametrize("gate", GATES)
def test_a_dropped_layer_learns_nothing_and_the_others_do(gate: Gate) -> None:
    torch.manual_seed(2)
    pool = make_pool(torch.tensor([0.3, 0.2, 0.1]), gate=gate, dropout=0.4).train()
    weights = pool.weights()
    assert (weights == 0).tolist() == [False, True, False]
    torch.autograd.backward((weights * torch.tensor([1.0, 2.0, 4.0])).sum())
    assert pool.mix.grad is not None
    assert (pool.mix.grad != 0).tolist() == [True, False, True]


def test_a_mean_pool_gives_every_layer_the_same_weight() -> None:
    pool = MeanPool(3)
    expected = torch.tensor([[[5 / 3, 1 / 3], [4 / 3, 2.0]]])
    torch.testing.assert_close(pool(STATES), expected, rtol=FLOAT32, atol=FLOAT32)
    assert list(pool.needs) == [0, 1, 2]


def test_a_pool_is_built_by_name() -> None:
    assert isinstance(build_pool("mix", 3), LayerPool)
    assert isinstance(build_pool("mean", 3), MeanPool)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([0.5, 0.1, -1.0], [0.7, 0.3, 0.0]),  # threshold (0.6 - 1) / 2 = -0.2
        ([0.1, -1.0, 0.5], [0.3, 0.0, 0.7]),  # in any order
        ([1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),  # ties share; threshold (2 - 1) / 2 = 0.5
        ([0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]),
        ([0.5, 0.2, 0.2], [8 / 15, 7 / 30, 7 / 30]),  # threshold -0.1 / 3
        ([3.0, 0.0, 1.0], [1.0, 0.0, 0.0]),
        ([2.0, 1.0], [1.0, 0.0]),  # the second is just not counted
        ([-math.inf, 0.5, 0.1], [0.0, 0.7, 0.3]),
        ([-math.inf, -5.0, -math.inf], [0.0, 1.0, 0.0]),
        ([-7.0], [1.0]),
    ],
)
def test_sparsemax_by_hand(scores: list[float], expected: list[float]) -> None:
    got = sparsemax(torch.tensor(scores, dtype=torch.float64))
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), rtol=FLOAT64, atol=FLOAT64)
    assert [value == 0 for value in got.tolist()] == [value == 0 for value in expected]


@given(scores_of_layers)
@settings(max_examples=100, deadline=None)
def test_sparsemax_is_what_is_left_above_a_threshold(scores: list[float]) -> None:
    expected = torch.tensor(plain_sparsemax(scores), dtype=torch.float64)
    got = sparsemax(torch.tensor(scores, dtype=torch.float64))
    torch.testing.assert_close(got, expected, rtol=FLOAT64, atol=FLOAT64)


@pytest.mark.parametrize("scores", [[0.5, 0.1, -1.0], [-0.3, 0.4, 0.2, 0.1, -0.9], [0.2, 0.2, -0.7], [5.0, 1.0], [0.1]])
def test_the_gradient_of_sparsemax_is_that_of_small_steps(scores: list[float]) -> None:
    assert torch.autograd.gradcheck(sparsemax, torch.tensor(scores, dtype=torch.float64, requires_grad=True))


def test_sparsemax_moves_only_what_counts() -> None:
    scores = torch.tensor([0.5, -math.inf, 0.1, -1.0], requires_grad=True)
    torch.autograd.backward((sparsemax(scores) * torch.tensor([1.0, 10.0, 4.0, 100.0])).sum())
    assert scores.grad is not None
    # the mean of 1 and 4 is taken off both
    torch.testing.assert_close(scores.grad, torch.tensor([-1.5, 0.0, 1.5, 0.0]), rtol=FLOAT32, atol=FLOAT32)


def test_a_layer_at_the_threshold_of_sparsemax_counts_for_nothing() -> None:
    scores = torch.tensor([2.0, 1.0], requires_grad=True)
    torch.autograd.backward((sparsemax(scores) * torch.tensor([3.0, 5.0])).sum())
    assert scores.grad is not None
    assert scores.grad.tolist() == [0.0, 0.0]  # else the weights would stop summing to 1
