import os

import pytest
import torch
from torch import Tensor, nn

from close import KEPT, KEPT_BF16

pytest.importorskip("triton", reason="needs Triton")
from bertvision.heads.parts.window_attention import NARROW, ROWS, attend_windows

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
pytestmark = [
    pytest.mark.skipif(
        not GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"
    ),
    # in rows of a tile behind a window's end, which are not kept
    pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning"),
]
on_gpu = pytest.mark.skipif(not GPU, reason="needs a GPU: the interpreter's products take bfloat16 for integers")

LENGTHS = (ROWS, 0, 1, 2 * ROWS + 5, 3, ROWS - 1, ROWS + 1)


def bounds_of(*lengths: int) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(dim=0).to(DEVICE, torch.int32)


def formula(parts: Tensor, bounds: Tensor) -> Tensor:
    """Window by window, with torch's own softmax."""
    read = []
    for begin, end in zip(bounds.tolist()[:-1], bounds.tolist()[1:], strict=True):
        query, key, value = parts[begin:end].permute(1, 2, 0, 3)
        weights = torch.softmax(query @ key.mT / parts.shape[3] ** 0.5, dim=-1)
        read.append((weights @ value).transpose(0, 1))
    return torch.cat(read)


def check(parts: Tensor, bounds: Tensor, tolerance: float) -> None:
    """What is read and the gradients, as shares of all, against double precision."""
    longest = int(bounds.diff().max())
    parts.requires_grad_()
    found, _ = attend_windows(parts, bounds, longest)
    exact = parts.detach().double().requires_grad_()
    expected = formula(exact, bounds)
    assert found.dtype == parts.dtype
    assert found.shape == expected.shape
    above = torch.randn_like(found)
    (gradient,) = torch.autograd.grad(found, parts, above)
    (other,) = torch.autograd.grad(expected, exact, above.double())
    for one, whole in ((found, expected), *zip(gradient.unbind(1), other.unbind(1), strict=True)):
        assert float((one - whole).detach().norm() / whole.detach().norm()) < tolerance


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, KEPT), pytest.param(torch.bfloat16, KEPT_BF16, marks=on_gpu)]
)
@pytest.mark.parametrize(("heads", "size"), [(4, 24), (1, 16), (2, 5), (1, NARROW), (1, NARROW + 8)])
def test_reads_and_gradients_equal_those_of_each_window_by_itself(
    heads: int, size: int, dtype: torch.dtype, tolerance: float
) -> None:
    torch.manual_seed(0)
    check(torch.randn(sum(LENGTHS), 3, heads, size, device=DEVICE).to(dtype), bounds_of(*LENGTHS), tolerance)


@pytest.mark.parametrize("factor", [1e-3, 8.0])
def test_scores_of_any_size_keep_their_precision(factor: float) -> None:
    """With 8 nearly all weight is on one token, and scores reach some hundreds."""
    torch.manual_seed(0)
    parts = torch.randn(sum(LENGTHS), 3, 2, 8, device=DEVICE)
    parts[:, :2] *= factor
    check(parts.half(), bounds_of(*LENGTHS), 2 * KEPT)


def test_parts_and_gradients_need_not_stand_side_by_side() -> None:
    torch.manual_seed(0)
    parts = torch.randn(3, 2, 20, 8, device=DEVICE).half().requires_grad_()
    bounds = bounds_of(7, 13)
    found, _ = attend_windows(parts.permute(2, 0, 1, 3), bounds, 13)
    (gradient,) = torch.autograd.grad(found.float().sum(), parts)  # the gradient above is one number, expanded
    exact = parts.detach().double().requires_grad_()
    (other,) = torch.autograd.grad(formula(exact.permute(2, 0, 1, 3), bounds).sum(), exact)
    assert float((gradient - other).norm() / other.norm()) < KEPT


def test_longest_is_a_bound_alone() -> None:
    torch.manual_seed(0)
    parts = torch.randn(9, 3, 1, 8, device=DEVICE).half()
    bounds = bounds_of(4, 5)
    assert torch.equal(attend_windows(parts, bounds, 5)[0], attend_windows(parts, bounds, 300)[0])


def test_a_window_knows_nothing_of_others() -> None:
    torch.manual_seed(0)
    parts = torch.randn(30, 3, 1, 8, device=DEVICE).half()
    bounds = bounds_of(10, 20)
    before = attend_windows(parts, bounds, 20)[0]
    parts[10:] = torch.nan
    assert torch.equal(attend_windows(parts, bounds, 20)[0][:10], before[:10])


def step(linear: nn.Linear, tokens: Tensor, bounds: Tensor, longest: int) -> Tensor:
    read: Tensor = attend_windows(linear(tokens).unflatten(1, (3, 2, 8)), bounds, longest)[0]
    return read.sigmoid()


def test_it_is_compiled_once_for_all_sizes_with_what_stands_around_it() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(6, 48, device=DEVICE).half()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)
    for number, lengths in enumerate([(4, 5), (7, 20, 3), (70,)]):
        tokens, bounds = torch.randn(sum(lengths), 6, device=DEVICE).half(), bounds_of(*lengths)
        with torch._dynamo.config.patch(error_on_recompile=number > 0):  # noqa: SLF001 - no public name
            found = compiled(linear, tokens, bounds, max(lengths))
        expected = step(linear, tokens, bounds, max(lengths))
        torch.testing.assert_close(found, expected, rtol=KEPT, atol=KEPT)
        for one, other in zip(
            *(torch.autograd.grad(rows.sum(), list(linear.parameters())) for rows in (found, expected)), strict=True
        ):
            torch.testing.assert_close(one, other, rtol=KEPT, atol=KEPT)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3)])
def test_torch_finds_nothing_wrong_with_the_operation(order: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    parts = torch.randn(3, 3, 2, 8, device=DEVICE).half().permute(order).requires_grad_()
    torch.library.opcheck(attend_windows, (parts, bounds_of(1, 2), 2))


def test_bounds_need_not_stand_side_by_side() -> None:
    torch.manual_seed(0)
    parts, bounds = torch.randn(9, 3, 1, 8, device=DEVICE).half(), bounds_of(4, 5)
    strided = bounds.repeat_interleave(2)[::2]
    assert torch.equal(attend_windows(parts, strided, 5)[0], attend_windows(parts, bounds, 5)[0])
