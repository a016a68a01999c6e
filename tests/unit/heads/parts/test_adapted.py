import os

import pytest
import torch
from torch import Tensor, nn

from close import KEPT

pytest.importorskip("triton", reason="needs Triton")
from bertvision.heads.parts.adapted import adapted_scores

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
pytestmark = pytest.mark.skipif(
    not GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"
)


def distance(found: Tensor, expected: Tensor) -> float:
    found, expected = found.detach().float(), expected.detach().float()
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize(
    ("shape", "size", "outputs"), [((1, 3, 200, 72), 66, 2), ((2, 2, 130, 64), 64, 3), ((1, 2, 5, 8), 5, 1)]
)
def test_one_kernel_each_way_equals_the_formula_in_single_steps(
    shape: tuple[int, int, int, int], size: int, outputs: int
) -> None:
    batch, layers, tokens, _ = shape
    torch.manual_seed(0)
    inner = torch.randn(shape, device=DEVICE, dtype=torch.float16)
    inner[..., size:] = 0.0  # as an adapter fills it up
    inner.requires_grad_()
    bias = torch.randn(size, device=DEVICE, requires_grad=True)  # one for all layers
    whole = torch.randn(outputs, (layers + 1) * size, device=DEVICE, requires_grad=True)
    weight = whole.reshape(outputs, -1, size).transpose(0, 1)[1:]  # of all but the lowest layer
    above = torch.randn(batch, tokens, outputs, device=DEVICE)
    learning = (inner, bias, whole)
    found = adapted_scores(inner, bias.expand(layers, -1), weight)
    gradients = torch.autograd.grad((found.sum(dim=1) * above).sum(), learning)
    bent = nn.functional.gelu(inner[..., :size].float() + bias, approximate="tanh")
    expected = torch.einsum("blts,los->blto", bent, weight)
    others = torch.autograd.grad((expected.sum(dim=1) * above).sum(), learning)
    assert found.dtype == torch.float32
    assert distance(found, expected) < KEPT
    for gradient, other in zip(gradients, others, strict=True):
        assert gradient.dtype == other.dtype
        assert distance(gradient, other) < KEPT
    assert not gradients[0][..., size:].any()
