import torch
from torch import Tensor

from bertvision.heads import HeadShape, build_head
from bertvision.heads.parts.pool import MeanPool
from bertvision.heads.pooled_adapter import PooledAdapter
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
STATES = torch.tensor([[[[1.0, 1.0], [0.0, -1.0]], [[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [1.0, -1.0]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)

# gelu approximated by tanh, at the places that the tests meet
AT_3, AT_MINUS_HALF, AT_MINUS_3 = 2.9963626, -0.1542860, -0.0036374

MIXTURE = {
    # 6 · (1/6, 2/6, 3/6): the tokens are (1 + 2 - 3, 1 + 4 + 0) = (0, 5) and (0 + 4 + 3, -1 + 2 - 3) = (7, -2)
    "pool.mix": torch.tensor([1.0, 2.0, 3.0]).log(),
    "pool.scale": torch.tensor(6.0),
    # 5 - 2 = 3 and 3.5 - 2 - 2 = -0.5
    "adapter.weight": torch.tensor([[0.5], [1.0]]),
    "adapter.bias": torch.tensor([-2.0]),
}


def run(head: PooledAdapter, weights: dict[str, Tensor], project: list[list[float]]) -> Tensor:
    outputs = {"project.weight": torch.tensor(project), "project.bias": torch.tensor([0.5, -2.0])}
    head.load_state_dict({**weights, **outputs})
    result: Tensor = head(STATES, MASK)
    return result


def check_close(got: Tensor, first: tuple[float, float], second: tuple[float, float]) -> None:
    torch.testing.assert_close(got, torch.tensor([[first, second]]), rtol=FLOAT32, atol=FLOAT32)


def test_a_mixture_of_the_layers_is_adapted_and_projected_before_the_last_layer() -> None:
    got = run(PooledAdapter(SHAPE, size=1), MIXTURE, [[100.0, 10.0, 20.0], [-50.0, 5.0, 7.0]])
    check_close(  # the last layer is (-1, 0) and (1, -1)
        got,
        (100 * AT_3 - 10 + 0.5, -50 * AT_3 - 5 - 2),
        (100 * AT_MINUS_HALF + 10 - 20 + 0.5, -50 * AT_MINUS_HALF + 5 - 7 - 2),
    )


def test_without_skip_the_adapted_mixture_is_projected_alone() -> None:
    got = run(PooledAdapter(SHAPE, size=1, skip=False), MIXTURE, [[100.0], [-50.0]])
    check_close(got, (100 * AT_3 + 0.5, -50 * AT_3 - 2), (100 * AT_MINUS_HALF + 0.5, -50 * AT_MINUS_HALF - 2))


def test_the_mean_may_stand_for_the_mixture() -> None:
    # the means are (1/3, 1) and (1, -1/3); -1 + 3 + 1 = 3 and -3 - 1 + 1 = -3
    adapter = {"adapter.weight": torch.tensor([[-3.0], [3.0]]), "adapter.bias": torch.tensor([1.0])}
    got = run(PooledAdapter(SHAPE, pool="mean", size=1, skip=False), adapter, [[100.0], [-50.0]])
    check_close(got, (100 * AT_3 + 0.5, -50 * AT_3 - 2), (100 * AT_MINUS_3 + 0.5, -50 * AT_MINUS_3 - 2))


def test_as_built_it_mixes_into_386_numbers_and_sees_the_last_layer() -> None:
    head = build_head("pooled_adapter", SHAPE)
    assert head.options == {"pool": "mix", "size": 386, "skip": True, "layers": "0..2"}
    assert head.project.in_features == 386 + 2


def test_mean_adapter_is_the_same_with_the_mean() -> None:
    head = build_head("mean_adapter", SHAPE)
    assert isinstance(head, PooledAdapter)
    assert isinstance(head.pool, MeanPool)
    assert head.project.in_features == 386 + 2


def test_every_layer_is_asked_for() -> None:
    assert PooledAdapter(SHAPE).reads == (0, 1, 2)
