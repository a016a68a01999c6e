"""Where heads take a kernel of our own instead of their formula: the same outputs and gradients."""

import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor

from bertvision.heads import HeadShape, build_head
from bertvision.heads import encoder_attention as encoder_attention_module
from bertvision.heads.parts import adapter as adapter_module
from bertvision.heads.parts import float32_products
from bertvision.heads.parts import pool as pool_module
from bertvision.heads.parts.adapter import MAX_OUTPUTS, Adapter
from bertvision.heads.parts.float32_products import MAX_GRID, MAX_SETS, has_kernels
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=6, outputs=2)
MASK = torch.ones(2, 4, dtype=torch.bool)
CALLS: set[str] = set()


def mixtures(weights: Tensor, states: Tensor, heads: int, factor: float = 1.0) -> Tensor:
    """What the kernel promises, by its formula."""
    CALLS.add("mixtures")
    batch, _, tokens, sets = weights.shape
    mixed = torch.einsum("bltn,bltw->btnw", weights * factor, states).reshape(batch, tokens, sets // heads, heads, -1)
    return mixed.permute(3, 0, 1, 2, 4).reshape(heads, -1, states.shape[3])


def adapted(states: Tensor, weight: Tensor, bias: Tensor, projection: Tensor) -> Tensor:
    """What the kernel of adapters promises, by its formula."""
    CALLS.add("adapted")
    assert not states.requires_grad
    inner = torch.matmul(states, weight) + (bias if bias.ndim == 1 else bias[:, None])
    return torch.einsum("bltd,lod->blto", torch.nn.functional.gelu(inner, approximate="tanh"), projection)


def learn(name: str, options: dict[str, object]) -> list[Tensor]:
    """The outputs of a head, and its gradients."""
    head = build_head(name, SHAPE, options).eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in head.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    states = torch.randn(2, 3, 4, 6, generator=generator)
    outputs = head(states, MASK)
    above = torch.randn(outputs.shape, generator=generator)
    return [outputs, *torch.autograd.grad(outputs, list(head.parameters()), above, allow_unused=True)]


@pytest.mark.parametrize(
    ("name", "options", "kernels"),
    [
        ("encoder_attention", {"heads": 2, "size": 3}, {"mixtures"}),
        ("pooled_adapter", {"size": 3}, {"mixtures"}),  # a gradient enters what is adapted
        ("mean_adapter", {"size": 3}, {"mixtures", "adapted"}),
        ("adapter_pool", {"size": 3}, {"adapted"}),
        ("adapter_pool_own_skip", {"size": 3}, {"adapted"}),
        ("adapter_pool_mix", {"size": 3}, {"mixtures", "adapted"}),
        ("layer_mix", {}, set()),  # which takes scores of layers, not a mixture of states
    ],
)
def test_a_head_computes_the_same_by_a_kernel(
    name: str, options: dict[str, object], kernels: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = learn(name, options)
    for module, function, formula in (("mixtures", "layer_mixtures", mixtures), ("adapted", "adapted_scores", adapted)):
        stub = ModuleType(f"bertvision.heads.parts.{module}")
        stub.__dict__[function] = formula
        monkeypatch.setitem(sys.modules, stub.__name__, stub)
    for site in (encoder_attention_module, adapter_module, pool_module):
        monkeypatch.setattr(site, "has_kernels", lambda _states, _sets=1: True)
    CALLS.clear()
    found = learn(name, options)
    assert kernels == CALLS
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize(
    ("windows", "outputs", "learning", "taken"),
    [
        (1, MAX_OUTPUTS, False, True),
        (1, MAX_OUTPUTS + 1, False, False),
        (1, 2, True, False),
        (MAX_GRID // 3, 1, False, True),
        (MAX_GRID // 3 + 1, 1, False, False),
    ],
)
def test_adapters_take_a_kernel_for_few_outputs_and_windows_of_states_that_learn_nothing(
    windows: int, outputs: int, monkeypatch: pytest.MonkeyPatch, *, learning: bool, taken: bool
) -> None:
    stub = ModuleType("bertvision.heads.parts.adapted")
    stub.__dict__["adapted_scores"] = adapted
    monkeypatch.setitem(sys.modules, stub.__name__, stub)
    monkeypatch.setattr(adapter_module, "has_kernels", lambda _states: True)
    CALLS.clear()
    scores = Adapter(6, 4).scores(torch.zeros(windows, 3, 2, 6, requires_grad=learning), torch.zeros(outputs, 12))
    assert scores.shape == (windows, 3, 2, outputs)
    assert bool(CALLS) is taken


@pytest.mark.parametrize(
    ("dtype", "sets", "capability", "taken"),
    [
        (torch.bfloat16, 1, (9, 0), True),
        (torch.float16, MAX_SETS, (8, 0), True),
        (torch.float16, MAX_SETS, (7, 5), False),  # Triton does not promise to compile for it
        (torch.float16, MAX_SETS + 1, (9, 0), False),
        (torch.float32, 1, (9, 0), False),
        (torch.float64, 1, (9, 0), False),
    ],
)
def test_a_kernel_is_taken_for_16_bits_and_few_sets_on_a_gpu_that_triton_knows(
    dtype: torch.dtype, sets: int, capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch, *, taken: bool
) -> None:
    monkeypatch.setattr(float32_products, "_has_triton", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _gpu: capability)
    on_gpu = torch.zeros(1, dtype=dtype)
    assert not has_kernels(on_gpu, sets)  # it is on the CPU
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: True))
    assert has_kernels(on_gpu, sets) is taken
    assert not has_kernels(on_gpu.expand(MAX_GRID + 1), sets)
    assert has_kernels(on_gpu.expand(MAX_GRID), sets) is taken
