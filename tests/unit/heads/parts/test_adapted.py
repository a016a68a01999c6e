import os

import pytest
import torch
from torch import Tensor

from close import FAST_TANH, HALF_HEAD, KEPT_BF16

pytest.importorskip("triton", reason="needs Triton")
from bertvision.heads.parts import adapter as adapter_module
from bertvision.heads.parts.adapted import MAX_SPAN, adapted_scores
from bertvision.heads.parts.adapter import Adapter

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
pytestmark = pytest.mark.skipif(
    not GPU and os.environ.get("TRITON_INTERPRET") != "1", reason="needs a GPU, or TRITON_INTERPRET=1"
)
on_gpu = pytest.mark.skipif(not GPU, reason="needs a GPU")

Shape = tuple[int, int, int, int]


def make_states(shape: Shape, layout: str, dtype: torch.dtype = torch.float16) -> Tensor:
    batch, layers, tokens, width = shape
    if layout == "some layers":
        return torch.randn(batch, layers + 2, tokens, width, device=DEVICE).to(dtype)[:, 1:-1]
    if layout == "layers of a token side by side":
        return torch.randn(batch, tokens, layers, width, device=DEVICE).to(dtype).transpose(1, 2)
    return torch.randn(shape, device=DEVICE).to(dtype)


def make_weights(shape: Shape, size: int, outputs: int, *, shared: bool) -> list[Tensor]:
    """W, b and the projection; what goes into the GELU is some 1 to 2."""
    own = () if shared else (shape[1],)
    weights = [
        torch.randn(*own, shape[3], size, device=DEVICE) / shape[3] ** 0.5,
        torch.randn(*own, size, device=DEVICE),
        torch.randn(shape[1], outputs, size, device=DEVICE),
    ]
    return [weight.requires_grad_() for weight in weights]


def formula(states: Tensor, weight: Tensor, bias: Tensor, projection: Tensor) -> Tensor:
    inner = torch.matmul(states, weight) + (bias if bias.ndim == 1 else bias[:, None])
    return torch.einsum("bltd,lod->blto", torch.nn.functional.gelu(inner, approximate="tanh"), projection)


def check(states: Tensor, weights: list[Tensor], above: Tensor, tolerance: float = FAST_TANH) -> None:
    """Scores and gradients, as shares of all, against double precision."""
    found = adapted_scores(states, *weights)
    exact = [weight.detach().double().requires_grad_() for weight in weights]
    expected = formula(states.double(), *exact)
    assert found.dtype == torch.float32
    assert found.shape == expected.shape
    pairs = zip(
        [found, *torch.autograd.grad(found, weights, above)],
        [expected, *torch.autograd.grad(expected, exact, above.double())],
        strict=True,
    )
    for one, other in pairs:
        assert one.shape == other.shape
        assert float((one - other).detach().norm() / other.detach().norm()) < tolerance


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("layout", ["all layers", "some layers", "layers of a token side by side"])
@pytest.mark.parametrize(
    ("shape", "size", "outputs"), [((1, 3, 70, 20), 386, 2), ((2, 2, 33, 24), 64, 3), ((1, 1, 5, 7), 5, 1)]
)
def test_scores_and_gradients_equal_those_of_single_steps(
    shape: Shape, size: int, outputs: int, layout: str, *, shared: bool
) -> None:
    torch.manual_seed(0)
    states = make_states(shape, layout)
    weights = make_weights(shape, size, outputs, shared=shared)
    check(states, weights, torch.randn(*shape[:3], outputs, device=DEVICE))


@pytest.mark.parametrize("outputs", [4, 5, 16])
def test_many_outputs_share_what_is_read(outputs: int) -> None:
    torch.manual_seed(0)
    shape = (1, 2, 19, 8)
    weights = make_weights(shape, 70, outputs, shared=True)
    check(make_states(shape, "all layers"), weights, torch.randn(*shape[:3], outputs, device=DEVICE))


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_of_a_sum_over_layers_over_more_tokens_than_a_program_takes(*, shared: bool) -> None:
    torch.manual_seed(0)
    shape = (1, 2, MAX_SPAN + 5, 8)
    weights = make_weights(shape, 16, 2, shared=shared)
    check(
        make_states(shape, "all layers"), weights, torch.randn(1, 1, MAX_SPAN + 5, 2, device=DEVICE).expand(1, 2, -1, 2)
    )


def test_in_bfloat16_the_same_is_as_near_as_its_8_bits_are() -> None:
    torch.manual_seed(0)
    shape = (2, 3, 40, 24)
    weights = make_weights(shape, 30, 2, shared=False)
    check(
        make_states(shape, "all layers", torch.bfloat16), weights, torch.randn(*shape[:3], 2, device=DEVICE), KEPT_BF16
    )


def test_a_second_way_back_is_refused() -> None:
    shape = (1, 2, 3, 4)
    weights = make_weights(shape, 5, 2, shared=True)
    total = adapted_scores(make_states(shape, "all layers"), *weights).sum()
    torch.autograd.grad(total, weights, retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(total, weights)


def test_frozen_weights_get_no_gradient_and_the_others_theirs() -> None:
    torch.manual_seed(0)
    shape = (1, 2, 3, 4)
    states = make_states(shape, "all layers")
    weights = make_weights(shape, 5, 2, shared=False)
    expected = torch.autograd.grad(adapted_scores(states, *weights).sum(), weights)
    weight, bias, projection = weights
    found = torch.autograd.grad(adapted_scores(states, weight.detach(), bias, projection).sum(), [bias, projection])
    assert all(torch.equal(one, other) for one, other in zip(found, expected[1:], strict=True))


def test_neither_autocast_nor_the_lack_of_gradients_changes_scores() -> None:
    torch.manual_seed(0)
    shape = (1, 2, 6, 8)
    states = make_states(shape, "all layers")
    weights = make_weights(shape, 12, 2, shared=True)
    expected = adapted_scores(states, *weights)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        learning = adapted_scores(states, *weights)
        (gradient,) = torch.autograd.grad(learning.sum(), weights[:1])
    with torch.no_grad():
        found = adapted_scores(states, *weights)
    assert torch.equal(learning, expected)
    assert torch.equal(gradient, torch.autograd.grad(expected.sum(), weights[:1])[0])
    assert torch.equal(found, expected)
    assert not found.requires_grad


@pytest.mark.parametrize("layers", [None, 3])
def test_an_adapter_scores_layers_by_it_one_by_one_or_all_at_once(
    layers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    adapter = Adapter(8, 5, layers=layers).to(DEVICE)
    torch.nn.init.normal_(adapter.weight)
    torch.nn.init.normal_(adapter.bias)
    states, weight = make_states((2, 3, 6, 8), "all layers"), torch.randn(2, 15, device=DEVICE)
    single = adapter.scores(states.float(), weight).detach()
    monkeypatch.setattr(adapter_module, "has_kernels", lambda _states: True)
    whole = adapter.scores(states, weight)
    each = [adapter.scores(states[:, layer : layer + 1], weight, layer) for layer in range(3)]
    for found in (whole, torch.cat(each, dim=1)):
        assert float((found - single).detach().abs().max() / single.abs().max()) < HALF_HEAD


@on_gpu
def test_a_step_can_be_recorded_and_gives_the_same_again() -> None:
    torch.manual_seed(0)
    shape = (1, 3, MAX_SPAN + 100, 64)
    states = make_states(shape, "all layers", torch.bfloat16)
    weights = make_weights(shape, 70, 2, shared=False)

    def step() -> list[Tensor]:
        scores = adapted_scores(states, *weights)
        gradients = torch.autograd.grad(scores.sum(dim=1).square().mean(), weights)
        return [scores.detach(), *gradients]  # what autograd kept of a step outside a recording cannot be met within

    expected = step()
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch's own
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        found = step()
        graph.capture_end()
    graph.replay()
    first = [tensor.clone() for tensor in found]
    graph.replay()
    torch.cuda.synchronize()
    for one, other, single in zip(found, first, expected, strict=True):
        assert torch.equal(one, other)
        assert float((one - single).detach().norm() / single.detach().norm()) < KEPT_BF16
