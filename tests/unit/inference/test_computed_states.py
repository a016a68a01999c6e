"""Where states come from: an encoder that runs again, or one row per window in memory."""

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertvision.encoder.batch import TokenBatch, padded_batch
from bertvision.encoder.encoder import Encoder, Visitor
from bertvision.heads import HeadShape, build_head
from bertvision.inference import outputs as outputs_module
from bertvision.inference.computed_states import RowStates, StreamStates, can_follow, encode_texts
from bertvision.inference.outputs import PassOptions
from bertvision.inference.pair_rows import compare_tokens
from bertvision.objectives import Pool
from close import FLOAT32
from known_weights import randomise
from tiny_models import tiny_model, tiny_windows

PADDED = PassOptions(packed=False, pad=1, bf16=False)
PACKED_PASS = PassOptions(packed=True, pad=1, bf16=False)
WINDOWS = tiny_windows(4, 9, 6, 3, 7)


def make() -> Encoder:
    return Encoder(tiny_model(), name="tiny").eval()


@torch.no_grad()
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layers", [range(4), range(2, 4), range(1, 2)])
def test_states_of_an_encoder_are_those_of_each_window_alone(*, packed: bool, layers: range) -> None:
    rows = np.array([3, 1, 4])
    stream = StreamStates(make(), WINDOWS, PACKED_PASS if packed else PADDED, layers)
    batch = stream.batch(rows)
    assert (batch.lowest, batch.packed is not None) == (layers[0], packed)
    hidden = batch.padded
    assert hidden.states.shape == (3, len(layers), 9, 16)
    assert hidden.mask.sum(dim=1).tolist() == [3, 9, 7]
    for place, row in enumerate(rows):
        alone = make()(padded_batch(WINDOWS, np.array([row])))
        expected = alone.states[0, layers[0] : layers[-1] + 1]
        found = hidden.states[place, :, : expected.shape[1]]
        torch.testing.assert_close(found, expected, rtol=FLOAT32, atol=FLOAT32)


@torch.inference_mode()
@pytest.mark.parametrize("name", ["layer_mix", "ladder", "conv", "context_conv", "pooled_adapter_ngram"])
@pytest.mark.parametrize("packed", [False, True])
def test_lengths_that_are_rounded_up_change_no_output(*, packed: bool, name: str) -> None:
    rows = np.array([3, 1, 4])
    head = build_head(name, HeadShape(layers=4, width=16, outputs=2)).eval()
    randomise(head)
    options = PACKED_PASS if packed else PADDED
    outputs, mask = StreamStates(make(), WINDOWS, replace(options, multiple=16), range(4)).batch(rows).read(head)
    expected, real = StreamStates(make(), WINDOWS, options, range(4)).batch(rows).read(head)
    assert mask.shape == (3, 16)
    torch.testing.assert_close(outputs[mask], expected[real], rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize("packed", [False, True])
def test_padding_never_needs_positions_that_the_encoder_lacks(*, packed: bool) -> None:
    windows = tiny_windows(4, 35)  # 48 when rounded up, and there are 40 positions
    options = replace(PACKED_PASS if packed else PADDED, multiple=16)
    assert StreamStates(make(), windows, options, range(4)).batch(np.array([1])).padded.mask.shape[1] == (
        48 if packed else 35
    )


def test_states_of_an_encoder_carry_no_gradient() -> None:
    assert not StreamStates(make(), WINDOWS, PADDED, range(4)).batch(np.array([0])).hidden.states.requires_grad


def test_a_large_batch_is_encoded_in_parts_on_a_cpu_and_padded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, layers = np.array([3, 1, 4, 0]), range(1, 3)
    whole = StreamStates(make(), WINDOWS, PADDED, layers).batch(rows).hidden
    monkeypatch.setitem(outputs_module.BATCH_TOKENS, "cpu", 12)
    encoded: list[int] = []
    visit = Encoder.visit

    def noted(self: Encoder, batch: TokenBatch, visitor: Visitor, **options: Any) -> Tensor | None:  # noqa: ANN401
        encoded.append(batch.ids.numel())
        return visit(self, batch, visitor, **options)

    monkeypatch.setattr(Encoder, "visit", noted)
    batch = StreamStates(make(), WINDOWS, PADDED, layers).batch(rows)
    assert encoded == [9, 7, 8]  # of 9, of 7, and of 4 and 3 tokens
    assert (batch.lowest, batch.packed) == (1, None)
    found, real = batch.hidden, whole.mask[:, None, :, None]
    torch.testing.assert_close(found.states * real, whole.states * real, rtol=FLOAT32, atol=FLOAT32)
    assert torch.equal(found.mask, whole.mask)
    assert found.context is not None
    assert whole.context is not None
    assert torch.equal(found.context, whole.context)
    assert not found.states.requires_grad


@torch.inference_mode()
@pytest.mark.parametrize("packed", [False, True])
def test_heads_that_follow_the_encoder_give_what_they_give_on_all_layers_at_once(*, packed: bool) -> None:
    rows = np.array([3, 1, 4])
    shape = HeadShape(layers=4, width=16, outputs=2)
    names = ["layer_mix", "dot_attention", "adapter_pool_64_skip", "adapter_pool_64_own", "recurrent", "last_layer"]
    heads = [build_head(name, shape).eval() for name in names]
    heads += [
        build_head("ladder", shape, {"size": 8}).eval(),
        build_head("layer_mix", shape, {"layers": "1..2"}).eval(),
    ]
    for head in heads:
        randomise(head)
    stream = StreamStates(make(), WINDOWS, PACKED_PASS if packed else PADDED, range(4))
    batch = stream.batch(rows)
    for head, (outputs, mask) in zip(heads, stream.follow(rows, heads), strict=True):
        expected, real = batch.read(head)
        assert torch.equal(mask, real)
        torch.testing.assert_close(outputs[mask], expected[real], rtol=FLOAT32, atol=FLOAT32)


@torch.inference_mode()
def test_heads_that_follow_the_encoder_keep_no_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make()
    seen: list[weakref.ref[Tensor]] = []
    visit = encoder.visit

    def spy(batch: TokenBatch, visitor: Visitor, *, depth: int) -> None:
        def look(layer: int, states: Tensor) -> None:
            seen.append(weakref.ref(states))
            visitor(layer, states)
            # transformers itself holds the embeddings until it is done
            assert {number for number, kept in enumerate(seen) if kept() is not None} <= {0, layer}

        visit(batch, look, depth=depth)

    monkeypatch.setattr(encoder, "visit", spy)
    head = build_head("layer_mix", HeadShape(layers=4, width=16, outputs=2))
    StreamStates(encoder, WINDOWS, PADDED, range(4)).follow(np.array([0, 1]), [head])
    assert len(seen) == 4


def test_only_heads_that_read_layer_by_layer_or_one_token_of_one_layer_can_follow() -> None:
    shape = HeadShape(layers=4, width=16, outputs=2)
    able = {name: can_follow(build_head(name, shape)) for name in ("layer_mean", "last_layer", "conv", "context_conv")}
    assert able == {"layer_mean": True, "last_layer": True, "conv": False, "context_conv": False}


def test_rows_in_memory_are_windows_of_one_token() -> None:
    rows = torch.randn(5, 3, 4)
    batch = RowStates(rows, torch.device("cpu")).batch(np.array([4, 0]))
    assert torch.equal(batch.hidden.states, torch.stack([rows[4], rows[0]])[:, :, None])
    assert batch.hidden.mask.shape == (2, 1)
    assert batch.hidden.mask.all()
    assert (batch.lowest, batch.packed) == (0, None)


@torch.no_grad()
@pytest.mark.parametrize("pool", ["cls", "mean"])
@pytest.mark.parametrize("packed", [False, True])
def test_every_window_becomes_one_row_per_layer(*, pool: Pool, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(outputs_module.BATCH_TOKENS, "cpu", 18)  # two windows at a time
    encoder = make().train()  # it is frozen, whatever it was before
    rows = encode_texts(encoder, [WINDOWS], PACKED_PASS if packed else PADDED, pool=pool)
    assert rows.shape == (5, 4, 16)
    assert rows.dtype == torch.float32
    for row in range(5):
        states = make()(padded_batch(WINDOWS, np.array([row]))).states[0]
        expected = states[:, 0] if pool == "cls" else states.mean(dim=1)
        torch.testing.assert_close(rows[row], expected, rtol=FLOAT32, atol=FLOAT32)


@torch.no_grad()
@pytest.mark.parametrize("pool", ["cls", "mean"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("layers", [range(4), range(1, 3)])
def test_every_aligned_pair_becomes_the_row_that_it_has_alone(
    *, pool: Pool, packed: bool, layers: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(outputs_module.BATCH_TOKENS, "cpu", 18)  # two pairs at a time
    encoder, others = make(), np.array([4, 0, 3, 1, 2])  # a long text beside a short one, and one beside itself
    texts, options = [WINDOWS, WINDOWS.select(others)], PACKED_PASS if packed else PADDED
    rows = encode_texts(encoder, texts, options, pool=pool, pairs="aligned", layers=layers)
    assert rows.shape == (5, len(layers), 6 * 16)
    for row, other in enumerate(others.tolist()):
        first, second = (encoder(padded_batch(WINDOWS, np.array([one])), layers=layers) for one in (row, other))
        expected = compare_tokens(first, second, pool)[0]
        torch.testing.assert_close(rows[row], expected, rtol=FLOAT32, atol=FLOAT32)


def test_rows_of_some_layers_are_those_of_all_and_the_encoder_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = make()
    whole = encode_texts(encoder, [WINDOWS], PADDED, pool="mean")
    depths = []
    forward = Encoder.forward

    def note(self: Encoder, batch: TokenBatch, *, layers: range) -> object:
        depths.append(layers[-1])
        return forward(self, batch, layers=layers)

    monkeypatch.setattr(Encoder, "forward", note)
    some = encode_texts(encoder, [WINDOWS], PADDED, pool="mean", layers=range(1, 3))
    torch.testing.assert_close(some, whole[:, 1:3], rtol=FLOAT32, atol=FLOAT32)
    assert set(depths) == {2}
