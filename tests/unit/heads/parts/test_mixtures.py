import os

import pytest
import torch

from close import EXACT, KEPT

pytest.importorskip("triton", reason="needs Triton")
from bertvision.heads.parts import pool as pool_module
from bertvision.heads.parts.mixtures import layer_mixtures
from bertvision.heads.parts.pool import MeanPool

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
pytestmark = pytest.mark.skipif(
    not GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"
)


@pytest.mark.parametrize(
    ("shape", "heads", "outputs"), [((1, 24, 3, 300), 8, 2), ((2, 5, 4, 64), 2, 3), ((1, 3, 2, 8), 1, 1)]
)
def test_one_kernel_each_way_equals_the_sums_over_layers(
    shape: tuple[int, int, int, int], heads: int, outputs: int
) -> None:
    batch, layers, tokens, width = shape
    torch.manual_seed(0)
    states = torch.randn(batch, layers + 1, tokens, width, device=DEVICE, dtype=torch.float16)[:, 1:]
    weights = torch.rand(batch, layers, tokens, outputs * heads, device=DEVICE).softmax(dim=1).requires_grad_()
    found = layer_mixtures(weights, states, heads)
    above = torch.randn_like(found)
    (gradient,) = torch.autograd.grad(found, weights, above)
    mixed = torch.einsum("bltn,bltw->btnw", weights, states.float()).reshape(batch, tokens, outputs, heads, width)
    expected = mixed.permute(3, 0, 1, 2, 4).reshape(heads, batch * tokens * outputs, width)
    (other,) = torch.autograd.grad(expected, weights, above.float())
    assert float((found.float() - expected).detach().norm() / expected.detach().norm()) < KEPT
    assert float((gradient - other).norm() / other.norm()) < KEPT


def test_weights_of_all_tokens_may_be_the_same_ones() -> None:
    torch.manual_seed(0)
    states = torch.randn(2, 3, 4, 8, device=DEVICE, dtype=torch.float16)
    factors = torch.rand(3, device=DEVICE, requires_grad=True)
    found = layer_mixtures(factors[None, :, None, None].expand(2, 3, 4, 1), states, 1).view(2, 4, 8)
    (gradient,) = torch.autograd.grad(found.float().sum(), factors)
    torch.testing.assert_close(found.float(), torch.einsum("l,bltw->btw", factors, states.float()), rtol=0, atol=1e-2)
    torch.testing.assert_close(gradient, states.float().sum(dim=(0, 2, 3)), rtol=1e-3, atol=1e-2)


def test_a_factor_counts_in_mixtures_and_gradients() -> None:
    torch.manual_seed(0)
    states = torch.randn(2, 3, 4, 8, device=DEVICE, dtype=torch.float16)
    weights = torch.rand(2, 3, 4, 6, device=DEVICE, requires_grad=True)
    found, scaled = (layer_mixtures(weights, states, 2, factor) for factor in (1.0, 0.25))
    torch.testing.assert_close(scaled, found / 4, rtol=0, atol=EXACT)  # 1/4 rounds nothing
    above = torch.randn_like(found)
    one, other = (torch.autograd.grad(mixed, weights, above)[0] for mixed in (found, scaled))
    torch.testing.assert_close(other, one / 4, rtol=0, atol=EXACT)


@pytest.mark.parametrize("size", [1.0, 60_000.0])
def test_the_mean_of_many_layers_stays_in_the_range_of_16_bits(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """25 times 60,000 is beyond float16, whose largest number is 65,504."""
    monkeypatch.setattr(pool_module, "has_kernels", lambda _states: True)
    torch.manual_seed(0)
    states = (size * torch.rand(2, 25, 3, 40, device=DEVICE)).half()
    torch.testing.assert_close(MeanPool(25)(states).double(), states.double().mean(dim=1), rtol=KEPT, atol=EXACT)
