"""How heads read states that many of them share: padded or packed, some layers of some windows."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor
from typing_extensions import override

from bertvision.encoder.batch import TokenBatch, packed_batch, unpack
from bertvision.encoder.states import HiddenStates
from bertvision.heads import Head, HeadShape, build_head
from bertvision.heads.head import WindowBounds
from bertvision.heads.ladder import Ladder
from bertvision.objectives import Pool
from bertvision.training import states as states_module
from bertvision.training.states import StateBatch
from close import FLOAT32
from tiny_models import tiny_windows

LENGTHS = (3, 5, 2)
LAYERS, WIDTH = 4, 6
WHOLE = HeadShape(layers=LAYERS, width=WIDTH, outputs=2)


class Spy(Head):
    """Gives the first numbers of its lowest layer, and remembers what it was given."""

    def __init__(self, reads: Sequence[int], *, token_wise: bool = True) -> None:
        super().__init__(WHOLE)
        self.token_wise = token_wise
        self._reads = reads
        self.seen: list[tuple[Tensor, Tensor, Tensor | None]] = []

    @property
    @override
    def needs(self) -> Sequence[int]:
        return self._reads

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        self.seen.append((states, mask, context))
        return states[:, 0, :, :2]


def padded(layers: int = LAYERS, *, lowest: int = 0) -> StateBatch:
    """Windows of 3, 5 and 2 tokens; the second text begins at the third token."""
    torch.manual_seed(0)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    states = torch.randn(len(LENGTHS), layers, max(LENGTHS), WIDTH) * mask[:, None, :, None]
    context = mask & (torch.arange(max(LENGTHS)) >= 2)
    return StateBatch(HiddenStates(states, mask, context=context), lowest=lowest)


def packed() -> StateBatch:
    """The same windows end to end."""
    whole = padded().hidden
    assert whole.context is not None
    states = whole.states.transpose(1, 2)[whole.mask].transpose(0, 1)[None]  # (1, layers, all tokens, width)
    tokens: TokenBatch = packed_batch(tiny_windows(*LENGTHS), np.arange(len(LENGTHS)))
    return StateBatch(HiddenStates(states, tokens.mask, context=whole.context[whole.mask][None]), packed=tokens)


def test_a_head_gets_its_layers_without_a_copy() -> None:
    batch = padded(2, lowest=2)  # layers 2 and 3
    for reads, place in ((2, 3), 0), ((3,), 1), ((2,), 0):
        spy = Spy(reads)
        outputs, mask = batch.read(spy)
        states = spy.seen[0][0]
        assert states.shape == (3, len(reads), 5, WIDTH)
        assert states.data_ptr() == batch.hidden.states[:, place].data_ptr()
        assert torch.equal(states[:, 0], batch.hidden.states[:, place])
        assert torch.equal(outputs, batch.hidden.states[:, place, :, :2])
        assert mask is batch.hidden.mask


def test_the_size_of_padded_states_is_known_before_they_are_made() -> None:
    windows = packed()
    assert windows.padded_bytes == padded().padded_bytes == windows.padded.states.nbytes


def test_a_head_that_reads_layers_apart_gets_those_between_too() -> None:
    spy = Spy((0, 2))
    padded().read(spy)
    assert spy.seen[0][0].shape[1] == 3


@pytest.mark.parametrize("name", ["layer_mix", "last_layer", "adapter_pool_64", "context_conv", "ladder"])
@pytest.mark.parametrize("pool", [None, "cls", "mean"])
def test_packed_and_padded_windows_give_a_head_the_same(name: str, pool: Pool | None) -> None:
    head = build_head(name, WHOLE, {"size": 4, "heads": 1} if name == "ladder" else {}).eval()
    outputs, mask = padded().read(head, pool)
    others, other_mask = packed().read(head, pool)
    assert torch.equal(mask, other_mask)
    torch.testing.assert_close(others[mask], outputs[mask], rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("fill", [None, 4])
def test_a_head_that_takes_packed_windows_gets_them_with_their_bounds(
    fill: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = packed_batch(tiny_windows(*LENGTHS), np.arange(len(LENGTHS)), fill=fill)
    states = torch.randn(1, LAYERS, tokens.ids.shape[1], WIDTH, generator=torch.Generator().manual_seed(0))
    batch = StateBatch(HiddenStates(states, tokens.mask), packed=tokens)
    head = build_head("ladder", WHOLE, {"size": 4, "heads": 1}).eval()
    expected, mask = batch.read(head)
    seen: list[WindowBounds] = []
    combine = Ladder.combine_packed

    def note(self: Ladder, parts: tuple[Tensor, ...], windows: WindowBounds) -> Tensor:
        seen.append(windows)
        return combine(self, parts, windows)

    monkeypatch.setattr(Ladder, "combine_packed", note)
    monkeypatch.setattr(Ladder, "takes_packed", lambda _self, parts: parts[0].ndim == 4)
    outputs, same = batch.read(head)
    assert torch.equal(mask, same)
    torch.testing.assert_close(outputs[mask], expected[mask], rtol=FLOAT32, atol=FLOAT32)
    assert seen == [WindowBounds(seen[0].bounds, tokens.longest, None if fill is None else tokens.mask)]
    assert seen[0].bounds is tokens.bounds


def test_packed_states_are_made_padded_once_for_all_heads_that_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(rows: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        calls.append(rows.ndim)
        return unpack(rows, batch)

    monkeypatch.setattr(states_module, "unpack", counted)
    batch = packed()
    first, second = Spy(range(LAYERS), token_wise=False), Spy((1,), token_wise=False)
    batch.read(first)
    batch.read(second, "mean")
    batch.read(second, "cls")
    assert calls == [3, 1]  # states and context, once
    assert first.seen[0][0].data_ptr() == batch.padded.states.data_ptr()
    whole = padded().hidden
    assert torch.equal(batch.padded.states, whole.states)
    assert torch.equal(batch.padded.mask, whole.mask)
    assert whole.context is not None
    assert batch.padded.context is not None
    assert torch.equal(batch.padded.context, whole.context)


def test_a_token_wise_head_reads_packed_states_as_they_are() -> None:
    batch, spy = packed(), Spy((1, 2))
    outputs, mask = batch.read(spy)
    states, ones, _ = spy.seen[0]
    assert states.data_ptr() == batch.hidden.states[:, 1].data_ptr()
    assert ones.all()
    assert outputs.shape == (3, 5, 2)
    assert torch.equal(mask, padded().hidden.mask)
    assert torch.equal(outputs, padded().hidden.states[:, 1, :, :2])
    assert "padded" not in vars(batch)  # nobody needed it


def test_a_head_that_looks_beyond_a_token_gets_every_token_and_the_context() -> None:
    for batch in (padded(), packed()):
        spy = Spy((0,), token_wise=False)
        outputs, mask = batch.read(spy, "mean")
        states, seen, context = spy.seen[0]
        assert states.shape == (3, 1, 5, WIDTH)
        assert torch.equal(seen, mask)
        assert outputs.shape == (3, 5, 2)
        assert context is not None
        assert context.sum() == (3 - 2) + (5 - 2)


def test_a_token_wise_head_of_rows_reads_the_first_token_or_the_mean() -> None:
    hidden = padded().hidden
    outputs, mask = padded().read(Spy((1,)), "cls")
    assert torch.equal(outputs[:, 0], hidden.states[:, 1, 0, :2])
    assert mask.shape == (3, 1)
    assert mask.all()
    outputs, _ = padded().read(Spy((1,)), "mean")
    expected = torch.stack([hidden.states[w, 1, :length, :2].mean(dim=0) for w, length in enumerate(LENGTHS)])
    torch.testing.assert_close(outputs[:, 0], expected, rtol=FLOAT32, atol=FLOAT32)


def test_some_windows_are_themselves_in_the_order_asked_for() -> None:
    whole = padded(2, lowest=2)
    for batch in (whole, packed()):
        some = batch.only(torch.tensor([2, 0]))
        assert some.lowest == batch.lowest
        assert some.packed is None
        for place, window in enumerate((2, 0)):
            assert torch.equal(some.hidden.states[place], batch.padded.states[window])
            assert torch.equal(some.hidden.mask[place], batch.padded.mask[window])
            assert some.hidden.context is not None
            assert batch.padded.context is not None
            assert torch.equal(some.hidden.context[place], batch.padded.context[window])
    bare = StateBatch(HiddenStates(whole.hidden.states, whole.hidden.mask)).only(torch.tensor([1]))
    assert bare.hidden.context is None


@torch.inference_mode()
def test_attention_is_the_same_packed_and_padded_and_reads_pooled_rows() -> None:
    head = build_head("dot_attention", WHOLE, {"layers": "1..3"}).eval()
    found, end_to_end = padded().attention(head), packed().attention(head)
    assert found is not None
    assert end_to_end is not None
    assert found[0].shape == (3, 3, 5, 2)
    assert torch.equal(found[1], end_to_end[1])
    for one in (found, end_to_end):
        torch.testing.assert_close(one[0].sum(dim=1), torch.ones(3, 5, 2), rtol=FLOAT32, atol=FLOAT32)
    inside = [attention.permute(0, 2, 3, 1)[mask] for attention, mask in (found, end_to_end)]
    torch.testing.assert_close(inside[0], inside[1], rtol=FLOAT32, atol=FLOAT32)
    pooled = padded().attention(head, "cls")
    assert pooled is not None
    assert pooled[1].tolist() == [[True]] * 3
    torch.testing.assert_close(pooled[0][:, :, 0], found[0][:, :, 0], rtol=FLOAT32, atol=FLOAT32)
    assert padded().attention(build_head("layer_mix", WHOLE)) is None
