"""Low-rank changes by products alone against PEFT's own layers."""

import copy

import numpy as np
import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import Linear
from torch import Tensor, nn

from bertvision.encoder import Encoder
from bertvision.encoder.batch import padded_batch
from bertvision.encoder.lora import add_lora
from bertvision.encoder.low_rank import LowRankLinear, LowRankProduct, speed_up_lora
from close import FLOAT32
from tiny_models import KINDS, tiny_model, tiny_windows


def stack(*, bias: bool = True) -> nn.Module:
    """A linear map with a change that does something."""
    random = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4, bias=bias))
    inject_adapter_in_model(LoraConfig(r=2, lora_alpha=6, lora_dropout=0.0, target_modules=["0"]), model)
    for value in model.parameters():
        value.data.copy_(torch.randn(value.shape, generator=random))
    return model


def learn(model: nn.Module, states: Tensor) -> dict[str, Tensor]:
    """Outputs and all gradients of a step."""
    states = states.clone().requires_grad_()
    outputs = model(states)
    outputs.square().sum().backward()
    grads = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    assert states.grad is not None
    return {"outputs": outputs.detach(), "states": states.grad, **grads}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 6), (2, 3, 6)])
def test_outputs_and_gradients_are_those_of_peft(shape: tuple[int, ...], bias: bool) -> None:  # noqa: FBT001 - a case
    model = stack(bias=bias)
    ours = copy.deepcopy(model)
    speed_up_lora(ours)
    assert type(ours.get_submodule("0")) is LowRankLinear
    states = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    expected, got = learn(model, states), learn(ours, states)
    assert set(got) == set(expected)
    assert {name for name in got if "lora" in name} == {f"0.lora_{part}.default.weight" for part in "AB"}
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=FLOAT32, atol=FLOAT32)


def test_hand_worked_numbers() -> None:
    states, weight, bias = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([5.0])
    down, up = torch.tensor([[1.0, -1.0]]), torch.tensor([[2.0]])
    got = LowRankProduct.apply(states, weight, bias, down, up, 0.5)  # type: ignore[no-untyped-call]
    assert got.tolist() == [[15.0]]  # 3 + 8 + 5, and half of (1 - 2) · 2


def test_gradients_are_those_of_small_steps() -> None:
    random = torch.Generator().manual_seed(0)
    states, weight, bias, down, up = (
        torch.randn(size, generator=random, dtype=torch.float64) for size in ((3, 6), (4, 6), (4,), (2, 6), (4, 2))
    )
    learning = tuple(value.requires_grad_() for value in (states, down, up))
    torch.autograd.gradcheck(
        lambda x, a, b: LowRankProduct.apply(x, weight, bias, a, b, 3.0),  # type: ignore[no-untyped-call]
        learning,
    )


def test_states_that_need_no_gradient_get_none() -> None:
    model = stack()
    speed_up_lora(model)
    states = torch.randn(3, 6)
    model(states).sum().backward()
    assert states.grad is None
    assert model.get_parameter("0.lora_A.default.weight").grad is not None


def test_autocast_rounds_results_and_leaves_gradients_wide() -> None:
    model = stack()
    speed_up_lora(model)
    states = torch.randn(3, 6, generator=torch.Generator().manual_seed(1))
    exact = model(states)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(states)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), exact, rtol=0.03, atol=0.1)
    rounded.float().sum().backward()
    gradient = model.get_parameter("0.lora_B.default.weight").grad
    assert gradient is not None
    assert gradient.dtype == torch.float32


def test_a_map_that_learns_itself_is_left_to_peft() -> None:
    model = stack()
    model.get_parameter("0.base_layer.weight").requires_grad_()
    speed_up_lora(model)
    model(torch.randn(3, 6)).sum().backward()
    assert model.get_parameter("0.base_layer.weight").grad is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_encoder_learns_as_with_peft(kind: str) -> None:
    batch = padded_batch(tiny_windows(7, 5), np.arange(2))
    found = []
    for layer in (LowRankLinear, Linear):
        encoder = Encoder(tiny_model(kind), name="tiny")
        add_lora(encoder, 2)
        random = torch.Generator().manual_seed(0)
        for name, value in encoder.named_parameters():
            value.requires_grad_("lora_" in name)
            if "lora_" in name:
                value.data.copy_(0.2 * torch.randn(value.shape, generator=random))
        for module in encoder.modules():
            if isinstance(module, LowRankLinear):
                module.__class__ = layer
        encoder(batch).states.square().mean().backward()
        found.append({name: value.grad for name, value in encoder.named_parameters() if value.grad is not None})
    assert set(found[0]) == set(found[1])
    for name, expected in found[1].items():
        torch.testing.assert_close(found[0][name], expected, rtol=1e-4, atol=1e-6)
