"""Linear maps of layers into one tensor, against one linear map after the other."""

import pytest
import torch
from torch import Tensor, nn

from bertvision.heads.parts.layer_linear import layer_linear
from close import EXACT, HALF_HEAD
from known_weights import random_states


def maps(dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], list[Tensor]]:
    """Weights and biases of three layers."""
    weights, biases = random_states(3, 4, 6, seed=2), random_states(3, 4, seed=3)
    return tuple([one.to(dtype).requires_grad_() for one in some] for some in (weights, biases))  # type: ignore[return-value]


def one_by_one(states: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    """By torch's own linear map."""
    return torch.stack(
        [nn.functional.linear(states[:, layer], weights[layer], biases[layer]) for layer in range(3)], dim=1
    )


def learn(products: Tensor, learning: list[Tensor]) -> list[Tensor]:
    """The products, and the gradients of a loss of theirs."""
    above = random_states(*products.shape, seed=4).to(products.dtype)
    return [products.detach(), *torch.autograd.grad(products, learning, above)]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wide_states_are_mapped_to_the_last_bit(batch: int, dtype: torch.dtype) -> None:
    states, (weights, biases) = random_states(batch, 3, 5, 6).to(dtype), maps(dtype)
    found = learn(layer_linear(states, weights, biases), weights + biases)
    for one, other in zip(found, learn(one_by_one(states, weights, biases), weights + biases), strict=True):
        torch.testing.assert_close(one, other, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("batch", [1, 2])
def test_narrow_states_are_mapped_as_under_autocast_and_weights_learn_in_their_own_precision(batch: int) -> None:
    states, (weights, biases) = random_states(batch, 3, 5, 6), maps()
    expected = learn(one_by_one(states, weights, biases), weights + biases)
    with torch.autocast("cpu", torch.bfloat16):
        products = layer_linear(states.bfloat16(), weights, biases)
    assert products.dtype == torch.bfloat16
    assert products.is_contiguous()
    for one, other in zip(learn(products, weights + biases), expected, strict=True):
        assert one.dtype == (torch.bfloat16 if one.shape == products.shape else torch.float32)
        torch.testing.assert_close(one.float(), other, rtol=0.0, atol=HALF_HEAD * float(other.abs().max()))
