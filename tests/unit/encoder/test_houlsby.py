"""Bottleneck adapters: their maths by hand, and their place inside a layer."""

from math import erf, sqrt

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertvision.encoder import Encoder
from bertvision.encoder.batch import padded_batch
from bertvision.encoder.houlsby import HoulsbyAdapter, add_houlsby_adapters
from close import FLOAT32, NEAR_IDENTITY
from tiny_models import KINDS, tiny_model, tiny_windows

BATCH = padded_batch(tiny_windows(7, 5), np.arange(2))
ADAPTERS = {"albert": 2, "albert-groups": 8}
"""Adapters in all, where layers share them; elsewhere two in each of three layers, 6."""


def adapters_of(encoder: Encoder) -> list[HoulsbyAdapter]:
    return [module for module in encoder.modules() if isinstance(module, HoulsbyAdapter)]


def fill(module: nn.Module, seed: int = 0) -> None:
    """Weights large enough that an adapter in the wrong place shows."""
    random = torch.Generator().manual_seed(seed)
    for value in module.parameters():
        value.data.copy_(0.5 * torch.randn(value.shape, generator=random))


def test_an_adapter_adds_a_bottleneck_of_its_input() -> None:
    adapter = HoulsbyAdapter(2, 1)
    adapter.down.weight.data = torch.tensor([[1.0, 2.0]])
    adapter.down.bias.data = torch.tensor([0.5])
    adapter.up.weight.data = torch.tensor([[3.0], [-1.0]])
    adapter.up.bias.data = torch.tensor([0.1, 0.2])
    inner = -0.5 * (1 + erf(-0.5 / sqrt(2))) / 2  # gelu of 1·1 + 2·(-1) + 0.5
    expected = torch.tensor([1 + 3 * inner + 0.1, -1 - inner + 0.2])
    torch.testing.assert_close(adapter(torch.tensor([1.0, -1.0])), expected, rtol=FLOAT32, atol=FLOAT32)
    assert expected.tolist() == pytest.approx([0.637194, -0.645731], abs=FLOAT32)


def test_a_fresh_adapter_has_small_weights_and_no_bias() -> None:
    adapter = HoulsbyAdapter(300, 200)
    for linear in (adapter.down, adapter.up):
        assert linear.weight.abs().max() <= 2e-3  # cut off at two standard deviations …
        assert linear.weight.std().item() == pytest.approx(0.88e-3, rel=0.02)  # … which leaves 0.88 of one
        assert linear.bias.abs().max() == 0


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_an_encoder_with_fresh_adapters_is_all_but_the_same(kind: str) -> None:
    encoder = Encoder(tiny_model(kind), name="tiny")
    names = set(encoder.model.state_dict())
    before = encoder(BATCH).states
    add_houlsby_adapters(encoder, 4)
    after = encoder(BATCH).states
    assert len(adapters_of(encoder)) == ADAPTERS.get(kind, 6)
    assert names < set(encoder.model.state_dict())  # the encoder's own parameters keep their names
    torch.testing.assert_close(after, before, rtol=NEAR_IDENTITY, atol=NEAR_IDENTITY)
    assert not torch.equal(after, before)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_adapters_change_both_outputs_of_every_layer_and_nothing_else(kind: str) -> None:
    """An adapter that adds a constant is a bias of the linear map it stands behind."""
    encoder, plain = (Encoder(tiny_model(kind), name="tiny") for _ in range(2))
    add_houlsby_adapters(encoder, 4)
    random = torch.Generator().manual_seed(1)
    for block, same in zip(encoder.blocks, plain.blocks, strict=True):
        for name in (encoder.architecture.attention_output, encoder.architecture.feed_forward_output):
            constant = torch.randn(16, generator=random)
            adapter = block.get_submodule(name).get_submodule("houlsby")
            assert isinstance(adapter, HoulsbyAdapter)
            adapter.up.weight.data.zero_()
            adapter.up.bias.data.copy_(constant)
            linear = same.get_submodule(name)
            assert isinstance(linear, nn.Linear)
            own = 0 if linear.bias is None else linear.bias  # type: ignore[redundant-expr]  # ModernBERT has none
            linear.bias = nn.Parameter(own + constant)
    torch.testing.assert_close(encoder(BATCH).states, plain(BATCH).states, rtol=FLOAT32, atol=FLOAT32)


@torch.no_grad()
def test_an_adapter_stands_before_the_residual_sum_and_the_layernorm() -> None:
    encoder = Encoder(tiny_model("bert"), name="tiny")
    add_houlsby_adapters(encoder, 4)
    for seed, adapter in enumerate(adapters_of(encoder)):
        fill(adapter, seed)
    batch = padded_batch(tiny_windows(7), np.arange(1))
    states = encoder(batch).states[0]  # (layers, tokens, width)
    values = {name.removeprefix("encoder.layer.0."): value for name, value in encoder.model.named_parameters()}

    def linear(name: str, inputs: Tensor) -> Tensor:
        return inputs @ values[f"{name}.weight"].T + values[f"{name}.bias"]

    def adapt(name: str, inputs: Tensor) -> Tensor:
        inner = linear(f"{name}.houlsby.down", inputs)
        return inputs + linear(f"{name}.houlsby.up", inner * (1 + torch.erf(inner / sqrt(2))) / 2)

    def normalise(name: str, inputs: Tensor) -> Tensor:
        centred = inputs - inputs.mean(dim=-1, keepdim=True)
        scaled = centred / (centred.square().mean(dim=-1, keepdim=True) + 1e-12).sqrt()
        return scaled * values[f"{name}.weight"] + values[f"{name}.bias"]

    inputs = states[0]
    query, key, value = (
        linear(f"attention.self.{name}", inputs).reshape(-1, 2, 8) for name in ("query", "key", "value")
    )  # (tokens, heads, 8)
    shares = (torch.einsum("qhw,khw->hqk", query, key) / sqrt(8)).softmax(dim=-1)
    context = torch.einsum("hqk,khw->qhw", shares, value).flatten(1)
    attended = adapt("attention.output.dense", linear("attention.output.dense", context))
    middle = normalise("attention.output.LayerNorm", attended + inputs)
    inner = linear("intermediate.dense", middle)
    fed = adapt("output.dense", linear("output.dense", inner * (1 + torch.erf(inner / sqrt(2))) / 2))
    expected = normalise("output.LayerNorm", fed + middle)
    torch.testing.assert_close(states[1], expected, rtol=FLOAT32, atol=FLOAT32)


def test_adapters_take_the_precision_and_device_of_the_encoder() -> None:
    half = Encoder(tiny_model("bert").to(torch.bfloat16), name="tiny")
    add_houlsby_adapters(half, 4)
    assert {value.dtype for value in half.parameters()} == {torch.bfloat16}
    empty = Encoder(tiny_model("bert").to("meta"), name="tiny")
    add_houlsby_adapters(empty, 4)
    assert {value.device.type for value in empty.parameters()} == {"meta"}
