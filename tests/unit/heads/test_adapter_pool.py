import torch
from torch import Tensor

from bertvision.heads import HeadShape, build_head, count_parameters
from bertvision.heads.adapter_pool import AdapterPool
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
STATES = torch.tensor([[[[1.0, 1.0], [0.0, -1.0]], [[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [1.0, -1.0]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)

# gelu approximated by tanh, x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), at the places that the tests meet
AT_3, AT_2, AT_1, AT_0, AT_MINUS_HALF, AT_MINUS_1 = 2.9963626, 1.9545977, 0.8411920, 0.0, -0.1542860, -0.1588080

SUM_OF_BOTH = {"adapter.weight": torch.tensor([[1.0], [1.0]]), "adapter.bias": torch.tensor([0.0])}
"""Makes 2, 3, -1 of the first token's layers, and -1, 3, 0 of the second's."""


def run(head: AdapterPool, weights: dict[str, Tensor], project: list[list[float]]) -> Tensor:
    outputs = {"project.weight": torch.tensor(project), "project.bias": torch.tensor([0.5, -2.0])}
    head.load_state_dict({**weights, **outputs})
    result: Tensor = head(STATES, MASK)
    return result


def check_close(got: Tensor, first: tuple[float, float], second: tuple[float, float]) -> None:
    torch.testing.assert_close(got, torch.tensor([[first, second]]), rtol=FLOAT32, atol=FLOAT32)


def test_every_layer_goes_through_one_adapter_and_they_are_projected_side_by_side_the_lowest_first() -> None:
    # h W + b is (h₀ + h₁, 1 - h₁): (2, 0 | 3, -1 | -1, 1) for the first token, (-1, 2 | 3, 0 | 0, 2) for the second
    adapter = {"adapter.weight": torch.tensor([[1.0, 0.0], [1.0, -1.0]]), "adapter.bias": torch.tensor([0.0, 1.0])}
    got = run(AdapterPool(SHAPE, size=2), adapter, [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [-1.0, 0.5, 2.0, 1.0, -2.0, 3.0]])
    check_close(
        got,
        (
            AT_2 + 2 * AT_0 + 3 * AT_3 + 4 * AT_MINUS_1 + 5 * AT_MINUS_1 + 6 * AT_1 + 0.5,
            -AT_2 + 0.5 * AT_0 + 2 * AT_3 + AT_MINUS_1 - 2 * AT_MINUS_1 + 3 * AT_1 - 2,
        ),
        (
            AT_MINUS_1 + 2 * AT_2 + 3 * AT_3 + 4 * AT_0 + 5 * AT_0 + 6 * AT_2 + 0.5,
            -AT_MINUS_1 + 0.5 * AT_2 + 2 * AT_3 + AT_0 - 2 * AT_0 + 3 * AT_2 - 2,
        ),
    )


def test_every_layer_may_go_through_an_adapter_of_its_own() -> None:
    # h₀ + h₁, h₁ - h₀ + 2, -2 h₁ - 1: 2, 3, -1 for the first token, -1, 1, 1 for the second
    own = {
        "adapter.weight": torch.tensor([[[1.0], [1.0]], [[-1.0], [1.0]], [[0.0], [-2.0]]]),
        "adapter.bias": torch.tensor([[0.0], [2.0], [-1.0]]),
    }
    got = run(AdapterPool(SHAPE, size=1, shared=False), own, [[1.0, 2.0, 3.0], [-2.0, 3.0, 1.0]])
    check_close(
        got,
        (AT_2 + 2 * AT_3 + 3 * AT_MINUS_1 + 0.5, -2 * AT_2 + 3 * AT_3 + AT_MINUS_1 - 2),
        (AT_MINUS_1 + 2 * AT_1 + 3 * AT_1 + 0.5, -2 * AT_MINUS_1 + 3 * AT_1 + AT_1 - 2),
    )


def test_with_skip_the_last_layer_stands_behind_them_as_it_is() -> None:
    got = run(
        AdapterPool(SHAPE, size=1, skip=True), SUM_OF_BOTH, [[1.0, 2.0, 3.0, 10.0, 20.0], [-2.0, 3.0, 1.0, 5.0, 7.0]]
    )
    check_close(  # the last layer is (-1, 0) and (1, -1)
        got,
        (AT_2 + 2 * AT_3 + 3 * AT_MINUS_1 - 10 + 0.5, -2 * AT_2 + 3 * AT_3 + AT_MINUS_1 - 5 - 2),
        (AT_MINUS_1 + 2 * AT_3 + 3 * AT_0 + 10 - 20 + 0.5, -2 * AT_MINUS_1 + 3 * AT_3 + AT_0 + 5 - 7 - 2),
    )


def test_every_layer_is_asked_for() -> None:
    assert AdapterPool(SHAPE).reads == (0, 1, 2)


def test_bert_large_has_414952_parameters_with_one_adapter_of_386() -> None:
    head = build_head("adapter_pool", HeadShape(layers=25, width=1024, outputs=2))
    # 1024 · 386 + 386 for the adapter, 2 · 25 · 386 + 2 for the output
    assert count_parameters(head) == 414_952
