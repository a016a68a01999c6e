import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor

from bertvision.heads.parts import adapter as module
from bertvision.heads.parts.adapter import Adapter
from bertvision.heads.parts.output import tokens_first
from close import EXACT, FLOAT32, HALF_HEAD

STATES = torch.tensor([[[[1.0, 1.0], [0.0, -1.0]], [[1.0, 2.0], [2.0, 1.0]]]])  # two layers of two tokens

# gelu approximated by tanh, x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)));
# exact it would be 2.9959503, 1.9544997, 0.8413447, 0, -0.1586553
AT_3, AT_2, AT_1, AT_0, AT_MINUS_1 = 2.9963626, 1.9545977, 0.8411920, 0.0, -0.1588080


def make_shared() -> Adapter:
    adapter = Adapter(2, 2)
    # h W + b is (h₀ + h₁, 1 - h₁)
    adapter.load_state_dict({"weight": torch.tensor([[1.0, 0.0], [1.0, -1.0]]), "bias": torch.tensor([0.0, 1.0])})
    return adapter


def test_one_map_is_shared_by_all_layers() -> None:
    expected = torch.tensor([[[[AT_2, AT_0], [AT_MINUS_1, AT_2]], [[AT_3, AT_MINUS_1], [AT_3, AT_0]]]])
    torch.testing.assert_close(make_shared()(STATES), expected, rtol=FLOAT32, atol=FLOAT32)


def test_a_shared_map_takes_any_shape() -> None:
    adapter = make_shared()
    torch.testing.assert_close(adapter(STATES[0, 1, 0]), torch.tensor([AT_3, AT_MINUS_1]), rtol=FLOAT32, atol=FLOAT32)
    torch.testing.assert_close(adapter(STATES[:, 1]), adapter(STATES)[:, 1], rtol=FLOAT32, atol=FLOAT32)


def test_every_layer_may_have_a_map_of_its_own() -> None:
    adapter = Adapter(2, 1, layers=2)
    adapter.load_state_dict(
        {"weight": torch.tensor([[[1.0], [1.0]], [[-1.0], [1.0]]]), "bias": torch.tensor([[0.0], [2.0]])}
    )
    # h₀ + h₁ of the first layer, h₁ - h₀ + 2 of the second
    expected = torch.tensor([[[[AT_2], [AT_MINUS_1]], [[AT_3], [AT_1]]]])
    torch.testing.assert_close(adapter(STATES), expected, rtol=FLOAT32, atol=FLOAT32)


def test_own_maps_that_are_the_same_are_a_shared_one() -> None:
    shared, own = make_shared(), Adapter(2, 2, layers=2)
    own.load_state_dict({"weight": shared.weight.expand(2, 2, 2), "bias": shared.bias.expand(2, 2)})
    torch.testing.assert_close(own(STATES), shared(STATES), rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("layers", [None, 3])
def test_weights_start_as_a_truncated_normal_and_biases_as_0(layers: int | None) -> None:
    torch.manual_seed(0)
    adapter = Adapter(300, 300, layers=layers)
    assert adapter.weight.abs().max() <= 2e-3
    # a normal of 1e-3 that is drawn again beyond two deviations has 0.8796e-3; cut off there it would have 0.9594e-3
    assert adapter.weight.std().item() == pytest.approx(0.8796e-3, rel=0.01)
    assert adapter.weight.mean().item() == pytest.approx(0.0, abs=1e-5)
    assert not adapter.bias.any()


def test_own_maps_start_apart() -> None:
    weight = Adapter(2, 2, layers=2).weight
    assert not torch.isclose(weight[0], weight[1], rtol=EXACT, atol=EXACT).any()


@pytest.mark.parametrize("layers", [None, 2])
def test_what_comes_out_is_as_precise_as_what_goes_in(layers: int | None) -> None:
    assert Adapter(2, 3, layers=layers)(STATES.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("layers", [None, 3])
@pytest.mark.parametrize("size", [3, 8])
def test_16_bit_states_give_scores_and_gradients_near_those_of_float32(size: int, layers: int | None) -> None:
    torch.manual_seed(0)
    adapter = Adapter(4, size, layers=layers)
    torch.nn.init.normal_(adapter.weight)
    torch.nn.init.normal_(adapter.bias)
    states, weight = torch.randn(2, 3, 5, 4), torch.randn(2, 3 * size)

    def run(dtype: torch.dtype) -> list[Tensor]:
        adapter.zero_grad()
        scores = adapter.scores(states.to(dtype), weight)
        torch.autograd.backward(scores.square().mean())
        assert scores.dtype == torch.float32
        assert adapter.weight.grad is not None
        assert adapter.bias.grad is not None
        return [scores, adapter.weight.grad, adapter.bias.grad]

    for rounded, exact in zip(run(torch.bfloat16), run(torch.float32), strict=True):
        assert rounded.dtype == exact.dtype
        assert (rounded - exact).abs().max() < HALF_HEAD * exact.abs().max()


def test_scores_of_some_layers_take_their_part_of_the_weight() -> None:
    torch.manual_seed(0)
    adapter = Adapter(4, 3, layers=3)
    states, weight = torch.randn(2, 3, 5, 4), torch.randn(2, 9)
    whole = adapter.scores(states, weight)
    torch.testing.assert_close(adapter.scores(states[:, 1:2], weight, 1), whole[:, 1:2])
    torch.testing.assert_close(whole.sum(dim=1), tokens_first(adapter(states)) @ weight.T)


@pytest.mark.parametrize(("batch", "layers", "outputs", "fits"), [(2, 3, 2, True), (2, 4, 2, False), (2, 3, 3, False)])
def test_the_kernel_is_used_within_its_limits_of_layers_of_all_windows_and_of_outputs(
    batch: int, layers: int, outputs: int, *, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = ModuleType("bertvision.heads.parts.adapted")  # the real one needs Triton
    shapes: list[tuple[int, ...]] = []

    def note(states: Tensor, weight: Tensor, bias: Tensor, projection: Tensor) -> Tensor:
        shapes.append((*weight.shape, *bias.shape, *projection.shape))
        return states.new_zeros(*states.shape[:3], projection.shape[1])

    kernels.adapted_scores = note  # type: ignore[attr-defined]  # a module is made of what is put into it
    monkeypatch.setitem(sys.modules, kernels.__name__, kernels)
    for name, value in (("has_kernels", lambda _: True), ("MAX_GRID", 6), ("MAX_OUTPUTS", 2)):
        monkeypatch.setattr(module, name, value)
    adapter = Adapter(5, 4)
    adapter.scores(torch.zeros(batch, layers, 7, 5), torch.zeros(outputs, layers * 4))
    assert shapes == ([(5, 4, 4, layers, outputs, 4)] if fits else [])
