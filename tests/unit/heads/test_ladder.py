import math
import sys
from itertools import pairwise
from types import MethodType, ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertvision.encoder.batch import TokenBatch, packed_batch, unpack
from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape, build_head
from bertvision.heads.head import WindowBounds
from bertvision.heads.ladder import MAX_HEAD_SIZE, Ladder, _Rung
from bertvision.heads.parts import float32_products
from bertvision.training.states import StateBatch
from close import EXACT, FLOAT32, HALF_HEAD
from known_weights import random_states, randomise, real_tokens
from tiny_models import tiny_windows

SHAPE = HeadShape(layers=3, width=5, outputs=2)


def plain_ladder(head: Ladder, states: Tensor, mask: Tensor) -> Tensor:
    """The same network out of torch's own modules, from its definition."""
    own = head.state_dict()
    below: Tensor | None = None
    for layer in range(3):
        part = {key.removeprefix(f"rungs.{layer}."): value for key, value in own.items()}

        def norm(tokens: Tensor, name: str, part: dict[str, Tensor] = part) -> Tensor:
            return nn.functional.layer_norm(tokens, (4,), part[f"{name}.weight"], part[f"{name}.bias"])

        def dense(tokens: Tensor, name: str, part: dict[str, Tensor] = part) -> Tensor:
            return tokens @ part[f"{name}.weight"].T + part[f"{name}.bias"]

        inner = norm(dense(states[:, layer], "enter"), "enter_norm")
        if below is not None:
            share = 1 / (1 + math.exp(-part["gate"].item()))
            inner = share * below + (1 - share) * inner
        attention = nn.MultiheadAttention(4, 2, batch_first=True)
        names = ["attention.weight", "attention.bias", "merge.weight", "merge.bias"]
        for its, name in zip(attention.parameters(), names, strict=True):
            its.data.copy_(part[name])
        normed = norm(inner, "attention_norm")
        read, _ = attention(normed, normed, normed, key_padding_mask=~mask)
        inner = inner + read
        wide = dense(norm(inner, "feed_forward.0"), "feed_forward.1")
        below = inner + dense(0.5 * wide * (1 + torch.erf(wide / math.sqrt(2))), "feed_forward.3")
    assert below is not None
    last = nn.functional.layer_norm(below, (4,), own["norm.weight"], own["norm.bias"])
    return nn.functional.linear(last, own["project.weight"], own["project.bias"])


def test_a_rung_mixes_what_comes_from_below_with_its_own_layer() -> None:
    head = Ladder(HeadShape(layers=3, width=3, outputs=3), size=3, heads=1).eval()
    for name, value in head.named_parameters():
        if "merge" in name or "feed_forward.3" in name:
            value.data.fill_(0.0)  # without attention and feed-forward
        if name.endswith(("enter.weight", "project.weight")):
            value.data.copy_(torch.eye(3))
        if name.endswith("enter.bias"):
            value.data.fill_(8.0)  # which normalising takes away again
    head.get_parameter("rungs.1.gate").data.fill_(math.log(3))  # three quarters from below
    head.project.bias.data.copy_(torch.tensor([0.0, 0.0, 10.0]))
    states = torch.tensor([[1.0, 2.0, 3.0], [2.0, 3.0, 1.0], [3.0, 1.0, 2.0]]).reshape(1, 3, 1, 3)
    # normed and in units of √1.5: (-1, 0, 1), (0, 1, -1), (1, -1, 0); the first two: (-3, 1, 2) / 4;
    # half of that and half of the third: (1, -3, 2) / 8, whose variance is 14 / 64 / 3 · 1.5; then normed again
    unit = math.sqrt(1.5) / 8 / math.sqrt(14 / 64 / 3 * 1.5 + 1e-5)
    got = head(states, real_tokens(1))[0, 0].tolist()
    assert got == pytest.approx([unit, -3 * unit, 2 * unit + 10], abs=FLOAT32)


def test_a_rung_is_a_small_transformer_block_with_padding_masked_out() -> None:
    head = Ladder(SHAPE, size=4, heads=2).eval()
    randomise(head)
    states, mask = random_states(2, 3, 6, 5), real_tokens(6, 4)
    expected = plain_ladder(head, states, mask)
    torch.testing.assert_close(head(states, mask)[mask], expected[mask], rtol=FLOAT32, atol=FLOAT32)


def test_a_gate_starts_half_way_and_the_lowest_rung_has_none() -> None:
    gates = {name: value for name, value in Ladder(SHAPE, size=4).named_parameters() if name.endswith("gate")}
    assert sorted(gates) == ["rungs.1.gate", "rungs.2.gate"]
    assert [torch.sigmoid(gate).item() for gate in gates.values()] == [0.5, 0.5]


def test_no_gradient_enters_the_states_though_every_parameter_learns() -> None:
    head = Ladder(SHAPE, size=4)
    randomise(head)
    states = random_states(1, 3, 6, 5).requires_grad_()
    torch.autograd.backward(head(states, real_tokens(6)).square().sum())
    assert states.grad is None
    assert all(value.grad is not None and value.grad.any() for value in head.parameters())


def test_dropout_acts_after_attention_and_after_feed_forward_while_learning_only() -> None:
    torch.manual_seed(0)
    states, mask = random_states(1, 3, 6, 5), real_tokens(6)
    head = Ladder(SHAPE, size=4, dropout=0.5)
    randomise(head)
    plain = Ladder(SHAPE, size=4, dropout=0.0)
    plain.load_state_dict(head.state_dict())
    settled = head.eval()(states, mask)
    torch.testing.assert_close(plain.train()(states, mask), settled, rtol=FLOAT32, atol=FLOAT32)
    for silent in ("merge", "feed_forward.3"):
        head.load_state_dict(plain.state_dict())
        for name, value in head.named_parameters():
            if silent in name:
                value.data.fill_(0.0)  # nothing is left for this dropout to act on, only for the other one
        head.train()
        assert not torch.equal(head(states, mask), head(states, mask))


def test_a_size_that_the_heads_cannot_share_is_refused() -> None:
    with pytest.raises(BertVisionError, match=r"head 'ladder': size is 10, a multiple of heads \(4\) is expected\."):
        build_head("ladder", SHAPE, {"size": "10"})
    assert build_head("ladder", SHAPE, {"size": "10", "heads": "5"}).project.in_features == 10


def test_feed_forward_is_as_many_times_as_wide_as_expand_says() -> None:
    head = build_head("ladder", SHAPE, {"size": 8, "expand": 3})
    assert head.get_parameter("rungs.0.feed_forward.1.weight").shape == (24, 8)
    assert head.reads == (0, 1, 2)
    whole, first = (head.eval()(random_states(1, 3, tokens, 5), real_tokens(tokens)) for tokens in (6, 1))
    assert (whole.shape, first.shape) == ((1, 6, 2), (1, 1, 2))


def test_tokens_see_each_other_but_not_padding() -> None:
    head = Ladder(SHAPE, size=4, heads=2).eval()
    randomise(head)
    states, mask = random_states(1, 3, 6, 5), real_tokens(6).clone()
    mask[0, 5] = False
    rows = head(states, mask)[0]
    for token, seen in ((4, True), (5, False)):
        moved = states.clone()
        moved[:, :, token] += 1.0
        changed = (head(moved, mask)[0, :4] != rows[:4]).any(dim=-1)
        assert changed.tolist() == [seen] * 4
    other = torch.where(mask[:, None, :, None], states, torch.inf)
    torch.testing.assert_close(head(other, mask)[0, :5], rows[:5], rtol=EXACT, atol=EXACT)


# ── windows end to end


def end_to_end(fill: int | None = None) -> TokenBatch:
    """Four windows in a row, with fillers behind them or without."""
    return packed_batch(tiny_windows(4, 9, 1, 6), np.arange(4), fill=fill)


def packed_rows(head: Ladder, states: Tensor, tokens: TokenBatch) -> Tensor:
    """What it gives for windows end to end, by bounds; on a CPU attention follows its formula."""
    assert tokens.bounds is not None
    windows = WindowBounds(tokens.bounds, tokens.longest, None if tokens.full else tokens.mask)
    return unpack(head.combine_packed(head.parts(states), windows)[0], tokens)[0]


def learn(head: Ladder, rows: Tensor, mask: Tensor) -> list[Tensor]:
    """The rows of real tokens, and the gradients of a loss of theirs."""
    rows = rows[mask]
    above = random_states(*rows.shape, seed=3).to(rows.dtype)
    return [rows.detach(), *torch.autograd.grad(rows, list(head.parameters()), above)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fill", [None, 4])
def test_windows_end_to_end_give_the_rows_and_gradients_of_padded_ones(fill: int | None, dtype: torch.dtype) -> None:
    tokens = end_to_end(fill)
    head = Ladder(SHAPE, size=8, heads=2).to(dtype).eval()
    randomise(head)
    states = random_states(1, 3, tokens.ids.shape[1], 5).to(dtype)
    padded = StateBatch(HiddenStates(states, tokens.mask), packed=tokens).padded
    expected = learn(head, head(padded.states, padded.mask), padded.mask)
    for one, other in zip(learn(head, packed_rows(head, states, tokens), padded.mask), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=FLOAT32, atol=FLOAT32 * float(other.abs().max()))


@pytest.mark.parametrize("filler", [1e3, torch.inf, torch.nan])
def test_what_stands_in_fillers_changes_neither_rows_nor_gradients(filler: float) -> None:
    tokens = end_to_end(4)
    head = Ladder(SHAPE, size=8, heads=2).eval()
    randomise(head)
    (entered,) = (part.detach() for part in head.parts(random_states(1, 3, tokens.ids.shape[1], 5)))
    assert tokens.bounds is not None
    windows = WindowBounds(tokens.bounds, tokens.longest, tokens.mask)
    learning = [value for name, value in head.named_parameters() if ".enter." not in name]
    found = []
    for parts in (entered, torch.where(tokens.mask[:, None, :, None], entered, filler)):
        rows = head.combine_packed((parts,), windows)[tokens.mask]
        found.append([rows, *torch.autograd.grad(rows.square().sum(), learning)])
    for one, other in zip(*found, strict=True):
        assert one.isfinite().all()
        assert torch.equal(one, other)


def test_dropout_acts_in_the_same_two_places_end_to_end() -> None:
    torch.manual_seed(0)
    tokens = end_to_end()
    states = random_states(1, 3, tokens.ids.shape[1], 5)
    head = Ladder(SHAPE, size=8, heads=2, dropout=0.5)
    randomise(head)
    assert not torch.equal(packed_rows(head, states, tokens), packed_rows(head, states, tokens))
    assert torch.equal(*(packed_rows(head.eval(), states, tokens) for _ in range(2)))
    silent = [value for name, value in head.named_parameters() if "merge" in name or "feed_forward.3" in name]
    for some in (silent[::4] + silent[1::4], silent[2::4] + silent[3::4]):
        kept = [value.detach().clone() for value in some]
        for value in some:
            value.data.fill_(0.0)  # nothing is left for this dropout to act on, only for the other one
        head.train()
        assert not torch.equal(packed_rows(head, states, tokens), packed_rows(head, states, tokens))
        for value, before in zip(some, kept, strict=True):
            value.data.copy_(before)
    for value in silent:
        value.data.fill_(0.0)
    assert torch.equal(*(packed_rows(head, states, tokens) for _ in range(2)))


@torch.no_grad()
@pytest.mark.parametrize("fill", [None, 4])
def test_a_rung_over_windows_end_to_end_is_compiled_without_a_break(fill: int | None) -> None:
    tokens = end_to_end(fill)
    head = Ladder(SHAPE, size=8, heads=2).eval()
    randomise(head)
    states = random_states(1, 3, tokens.ids.shape[1], 5)
    expected = packed_rows(head, states, tokens)
    program = torch.compile(_Rung.forward_packed, backend="eager", fullgraph=True, dynamic=True)
    for rung in head.rungs:
        assert isinstance(rung, _Rung)
        rung.forward_packed = MethodType(program, rung)  # type: ignore[method-assign]  # for this one alone
    torch.testing.assert_close(packed_rows(head, states, tokens), expected, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize(
    ("dtype", "on_gpu", "size", "capability", "taken"),
    [
        (torch.bfloat16, True, 96, (9, 0), True),
        (torch.float16, True, 32, (8, 0), True),
        (torch.float16, True, 32, (7, 5), False),  # Triton does not promise to compile for it
        (torch.bfloat16, False, 96, (9, 0), False),
        (torch.float32, True, 96, (9, 0), False),
        (torch.bfloat16, True, 4 * MAX_HEAD_SIZE, (9, 0), True),
        (torch.bfloat16, True, 4 * MAX_HEAD_SIZE + 4, (9, 0), False),  # its four heads are too wide
    ],
)
def test_windows_stay_end_to_end_where_the_kernel_takes_them(
    dtype: torch.dtype,
    size: int,
    capability: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    *,
    on_gpu: bool,
    taken: bool,
) -> None:
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: on_gpu))
    monkeypatch.setattr(float32_products, "_has_triton", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _gpu: capability)
    with torch.device("meta"):
        head = Ladder(HeadShape(layers=1, width=2, outputs=1), size=size)
    assert head.takes_packed((torch.zeros(1, 1, 3, size, dtype=dtype),)) is taken


def test_on_a_gpu_the_kernel_gets_windows_and_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    parts, bounds = random_states(16, 3, 2, 4), end_to_end().bounds
    assert bounds is not None
    rung = _Rung(5, 8, heads=2, expand=2, dropout=0.0, lowest=True)
    expected = rung._attend_within(parts, bounds, 9)  # noqa: SLF001 - the place where the kernel is called
    stub = ModuleType("bertvision.heads.parts.window_attention")
    monkeypatch.setitem(sys.modules, stub.__name__, stub)

    def attend_windows(parts: Tensor, bounds: Tensor, longest: int) -> tuple[Tensor, None]:
        assert longest == 9
        windows = []
        for begin, end in pairwise(bounds.tolist()):
            query, key, value = parts[begin:end].permute(1, 2, 0, 3)
            windows.append(nn.functional.scaled_dot_product_attention(query, key, value).transpose(0, 1))
        return torch.cat(windows), None

    stub.__dict__["attend_windows"] = attend_windows
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda _: True))
    found = rung._attend_within(parts, bounds, 9)  # noqa: SLF001 - as above
    torch.testing.assert_close(found, expected, rtol=FLOAT32, atol=FLOAT32)


def distance(found: list[Tensor], expected: list[Tensor]) -> float:
    """Between two lists of tensors, as a share of the length of the second."""
    one, other = (torch.cat([tensor.flatten() for tensor in some]) for some in (found, expected))
    return float((one - other).norm() / other.norm())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("fill", [None, 4])
def test_on_a_gpu_windows_end_to_end_in_16_bits_are_near_to_exact_ones(fill: int | None, *, compiled: bool) -> None:
    device = torch.device("cuda")
    tokens = end_to_end(fill).to(device)
    head = Ladder(SHAPE, size=32).eval().to(device)
    randomise(head)
    if compiled:
        head.compile_steps()
    states = random_states(1, 3, tokens.ids.shape[1], 5).to(device)
    exact = StateBatch(HiddenStates(states, tokens.mask), packed=tokens)
    rows, mask = exact.read(head)
    expected = learn(head, rows.cpu(), mask.cpu())
    batch = StateBatch(HiddenStates(states.bfloat16(), tokens.mask), packed=tokens)
    with torch.autocast("cuda", torch.bfloat16):
        assert head.takes_packed(head.parts(batch.hidden.states))
        rows, same = batch.read(head)
    assert torch.equal(same, mask)
    found = learn(head, rows.cpu(), mask.cpu())
    assert distance(found[:1], expected[:1]) < HALF_HEAD
    assert distance(found[1:], expected[1:]) < HALF_HEAD
