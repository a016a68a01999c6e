import pytest
import torch
from torch import Tensor

from bertvision.heads.parts.float32_products import float32_product, layer_maps, layer_scores
from close import FLOAT32, HALF

ROWS = torch.tensor([[[1.0, 2.0], [3.0, -1.0], [0.0, 4.0]]])  # (groups, rows, width)
WEIGHT = torch.tensor([[[10.0, 1.0], [0.0, 0.5]]])  # (groups, outputs, width)
PRODUCT = [[12.0, 1.0], [29.0, -0.5], [4.0, 2.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_are_multiplied_by_the_transpose_and_the_result_is_float32(dtype: torch.dtype) -> None:
    got = float32_product(ROWS.to(dtype), WEIGHT)
    assert got.dtype == torch.float32
    assert got[0].tolist() == PRODUCT


def test_every_group_has_a_weight_of_its_own() -> None:
    got = float32_product(torch.cat([ROWS, ROWS]).bfloat16(), torch.cat([WEIGHT, -WEIGHT]))
    torch.testing.assert_close(got[1], -got[0])


def test_neither_the_result_nor_the_weight_is_rounded_to_8_bits() -> None:
    # 256 + 1 and 1 + 1/512 have no place in 8 bits
    got = float32_product(torch.tensor([[[256.0, 1.0]]]).bfloat16(), torch.tensor([[[1.0, 1.0], [0.0, 1.0 + 2.0**-9]]]))
    assert got[0, 0].tolist() == [257.0, 1.0 + 2.0**-9]


def test_the_gradients_are_those_of_a_plain_product() -> None:
    rows = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0)).bfloat16()
    weight = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(1))
    gradient = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(2))

    def gradients(function: str) -> tuple[Tensor, Tensor]:
        mine, its = rows.clone().requires_grad_(), weight.clone().requires_grad_()
        got = float32_product(mine, its) if function == "wide" else mine.float() @ its.transpose(1, 2)
        torch.autograd.backward(got, gradient)
        assert mine.grad is not None
        assert its.grad is not None
        return mine.grad, its.grad

    for got, expected in zip(gradients("wide"), gradients("plain"), strict=True):
        assert got.dtype == expected.dtype
        torch.testing.assert_close(got, expected, rtol=HALF, atol=5 * HALF)


def test_rows_that_need_no_gradient_get_none() -> None:
    weight = WEIGHT.clone().requires_grad_()
    torch.autograd.backward(float32_product(ROWS.bfloat16(), weight).sum())
    assert weight.grad is not None
    assert weight.grad[0].tolist() == [[4.0, 5.0], [4.0, 5.0]]  # the sum of the rows, for both outputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_keep_batch_layers_and_tokens_apart(dtype: torch.dtype) -> None:
    states = torch.arange(24.0).reshape(2, 3, 2, 2).to(dtype)
    got = layer_scores(states[:, 1:], torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    expected = states[:, 1:].float() * torch.tensor([1.0, 2.0])
    torch.testing.assert_close(got, expected, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_maps_give_every_layer_its_own_weight(dtype: torch.dtype) -> None:
    states = torch.ones(2, 3, 4, 2, dtype=dtype)
    got = layer_maps(states, torch.tensor([[[1.0, 1.0]], [[2.0, 2.0]], [[3.0, 0.0]]]))
    assert got.shape == (2, 3, 4, 1)
    assert got[:, :, 0, 0].tolist() == [[2.0, 4.0, 3.0]] * 2
