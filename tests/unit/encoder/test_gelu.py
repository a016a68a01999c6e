"""The short GELU against the long one, and where it is put."""

import pytest
import torch
from torch import nn
from transformers.activations import GELUActivation

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.gelu import BriefGELU, shorten_gelu
from tiny_models import tiny_model


def test_it_is_right_to_a_millionth_for_all_numbers() -> None:
    x = torch.cat([torch.linspace(-12, 12, 200_001), torch.tensor([0.0, -1e4, 1e4])])
    torch.testing.assert_close(BriefGELU()(x), nn.functional.gelu(x.double()).float(), rtol=0.0, atol=1.5e-6)


def test_hand_worked_values() -> None:
    got = BriefGELU()(torch.tensor([-1.0, 0.0, 1.0, 2.0]))  # x times the normal distribution below x
    torch.testing.assert_close(got, torch.tensor([-0.158655, 0.0, 0.841345, 1.954500]), rtol=0.0, atol=1e-6)


def test_bfloat16_stays_bfloat16_and_is_rounded_once() -> None:
    x = torch.linspace(-4, 4, 4001).bfloat16()
    got, exact = BriefGELU()(x), nn.functional.gelu(x.double())
    assert got.dtype == torch.bfloat16
    assert ((got.double() - exact).abs() <= exact.abs() * 2**-8 + 1e-6).all()


def test_only_exact_ones_are_replaced() -> None:
    inner = nn.Sequential(GELUActivation())
    model = nn.Sequential(nn.GELU(), nn.GELU("tanh"), nn.ReLU(), inner)
    shorten_gelu(model)
    assert [type(part) for part in model.children()] == [BriefGELU, nn.GELU, nn.ReLU, nn.Sequential]
    assert [type(part) for part in inner.children()] == [BriefGELU]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_compiling_replaces_it_where_weights_are_bfloat16(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)  # noqa: ARG005 - torch's name
    encoder = Encoder(tiny_model("bert").to(dtype), name="tiny")
    encoder.compile_layers()
    assert any(isinstance(module, BriefGELU) for module in encoder.modules()) == (dtype is torch.bfloat16)
