import torch

from bertvision.heads import HeadShape
from bertvision.heads.adapter_pool_mix import AdapterPoolMix
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
STATES = torch.tensor([[[[1.0, 1.0], [0.0, -1.0]], [[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [1.0, -1.0]]]])

# gelu approximated by tanh, x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))), at the places that the tests meet
AT_3, AT_2, AT_0, AT_MINUS_HALF, AT_MINUS_1 = 2.9963626, 1.9545977, 0.0, -0.1542860, -0.1588080


def test_an_adapted_mixture_stands_between_the_adapted_layers_and_the_last_layer() -> None:
    weights = {
        # 2, 3, -1 of the first token's layers, and -1, 3, 0 of the second's
        "adapter.weight": torch.tensor([[1.0], [1.0]]),
        "adapter.bias": torch.tensor([0.0]),
        # 6 · (1/6, 2/6, 3/6): the tokens are (1 + 2 - 3, 1 + 4 + 0) = (0, 5) and (0 + 4 + 3, -1 + 2 - 3) = (7, -2)
        "pool.mix": torch.tensor([1.0, 2.0, 3.0]).log(),
        "pool.scale": torch.tensor(6.0),
        # 5 - 2 = 3 and 3.5 - 2 - 2 = -0.5
        "pooled_adapter.weight": torch.tensor([[0.5], [1.0]]),
        "pooled_adapter.bias": torch.tensor([-2.0]),
        "project.weight": torch.tensor([[1.0, 2.0, 3.0, 100.0, 10.0, 20.0], [-2.0, 3.0, 1.0, 50.0, 5.0, 7.0]]),
        "project.bias": torch.tensor([0.5, -2.0]),
    }
    head = AdapterPoolMix(SHAPE, size=1)
    head.load_state_dict(weights)
    expected = [
        [
            AT_2 + 2 * AT_3 + 3 * AT_MINUS_1 + 100 * AT_3 - 10 + 0.5,
            -2 * AT_2 + 3 * AT_3 + AT_MINUS_1 + 50 * AT_3 - 5 - 2,
        ],
        [
            AT_MINUS_1 + 2 * AT_3 + 3 * AT_0 + 100 * AT_MINUS_HALF + 10 - 20 + 0.5,
            -2 * AT_MINUS_1 + 3 * AT_3 + AT_0 + 50 * AT_MINUS_HALF + 5 - 7 - 2,
        ],
    ]
    got = head(STATES, torch.ones(1, 2, dtype=torch.bool))
    torch.testing.assert_close(got, torch.tensor([expected]), rtol=FLOAT32, atol=FLOAT32)


def test_it_needs_no_skip() -> None:
    assert AdapterPoolMix(SHAPE, size=5, skip=False).project.in_features == 3 * 5 + 5


def test_the_mixture_starts_as_the_mean_of_the_layers() -> None:
    torch.testing.assert_close(AdapterPoolMix(SHAPE).pool(STATES), STATES.mean(dim=1), rtol=FLOAT32, atol=FLOAT32)
