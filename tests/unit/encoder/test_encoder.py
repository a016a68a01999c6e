import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModel

from bertvision.encoder import Encoder, load_encoder
from bertvision.encoder.batch import packed_batch, padded_batch
from bertvision.encoder.load import drop_pooler
from bertvision.encoder.packed import PACKED
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.tasks.examples import Texts
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, build_windows
from close import EXACT, FLOAT32
from tiny_models import (
    KINDS,
    PACKABLE,
    POOLED,
    save_tiny,
    save_tiny_same_segment,
    tiny_config,
    tiny_model,
    tiny_windows,
)

WINDOWS = tiny_windows(5, 3)
BATCH = padded_batch(WINDOWS, np.arange(2))


@pytest.fixture
def encoder() -> Encoder:
    return Encoder(tiny_model("bert"), name="tiny")


def test_an_encoder_knows_its_shape(encoder: Encoder) -> None:
    assert (encoder.depth, encoder.width, encoder.device.type) == (3, 16, "cpu")
    assert Encoder(tiny_model("albert-groups"), name="tiny").depth == 8  # two layers in each of four steps


def test_the_top_layers_are_those_that_run_last(encoder: Encoder) -> None:
    assert encoder.top_blocks(0) == []
    assert encoder.top_blocks(2) == encoder.blocks[1:]
    shared = Encoder(tiny_model("albert-groups"), name="tiny")
    assert shared.top_blocks(1) == shared.blocks[3:]
    assert set(shared.top_blocks(4)) == set(shared.blocks[2:])
    assert set(shared.top_blocks(5)) == set(shared.blocks[1:])


@pytest.mark.parametrize("depth", [-1, 4])
def test_a_depth_the_encoder_does_not_have_is_refused(encoder: Encoder, depth: int) -> None:
    with pytest.raises(BertVisionError, match=rf"depth {depth} was asked for; tiny has the layers 0 to 3"):
        encoder.visit(BATCH, lambda _layer, _states: None, depth=depth)
    for layers in ([depth], [depth, 3], []):
        with pytest.raises(
            BertVisionError, match=rf"layers {re.escape(str(layers))} were asked for; tiny has the layers"
        ):
            encoder(BATCH, layers=layers)


def test_an_architecture_that_is_no_encoder_we_know_is_refused() -> None:
    model = tiny_model("bert")
    model.config.model_type = "gpt2"
    with pytest.raises(UnknownNameError, match="unknown encoder architecture 'gpt2'"):
        Encoder(model, name="tiny")


def test_a_decoder_is_refused_since_packed_windows_would_be_read_as_by_an_encoder() -> None:
    model = tiny_model("bert")
    model.config.is_decoder = True
    with pytest.raises(BertVisionError, match=r"'tiny' is a decoder .* Take an encoder\."):
        Encoder(model, name="tiny")


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_config_that_asks_for_tuples_changes_nothing(kind: str) -> None:
    encoder = Encoder(tiny_model(kind), name="tiny")
    batches = [BATCH, *([packed_batch(WINDOWS, np.arange(2))] if encoder.can_pack else [])]
    before = [encoder(batch).states for batch in batches]
    encoder.config.return_dict = False
    for batch, states in zip(batches, before, strict=True):
        assert torch.equal(encoder(batch).states, states)


@torch.no_grad()
def test_padded_and_packed_windows_may_take_turns(encoder: Encoder) -> None:
    own = encoder.config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
    padded = encoder(BATCH).states
    packed = encoder(packed_batch(WINDOWS, np.arange(2))).states
    assert torch.allclose(packed[0, :, :5], padded[0], atol=1e-6)
    assert torch.equal(encoder(BATCH).states, padded)
    assert encoder.config._attn_implementation == own  # noqa: SLF001


@torch.no_grad()
@pytest.mark.parametrize("kind", PACKABLE)
def test_padding_is_kept_apart_by_bounds_as_by_a_mask(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(tiny_model(kind), name=kind).eval()
    own = encoder.config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
    expected = encoder(BATCH)
    monkeypatch.setattr(Encoder, "_bounded", lambda _self, batch: not (batch.packed or batch.full))  # as on a GPU
    found = encoder(BATCH)
    assert encoder.config._attn_implementation == PACKED  # noqa: SLF001
    real = BATCH.mask[:, None].expand(found.states.shape[:3])
    torch.testing.assert_close(found.states[real], expected.states[real], rtol=FLOAT32, atol=FLOAT32)
    assert found.states.isfinite().all()
    full = padded_batch(WINDOWS, np.array([0]))
    torch.testing.assert_close(encoder(full).states[0], expected.states[0, :, :5], rtol=FLOAT32, atol=FLOAT32)
    assert encoder.config._attn_implementation == own  # noqa: SLF001


def test_a_packed_row_of_many_windows_has_no_pooled_vector(encoder: Encoder) -> None:
    with pytest.raises(BertVisionError, match="pooled vector of packed windows"):
        encoder(packed_batch(WINDOWS, np.arange(2)), pooled=True)


@torch.no_grad()
def test_position_numbers_begin_anew_with_every_packed_window(tmp_path_factory: pytest.TempPathFactory) -> None:
    for kind, first in (("bert", 0), ("roberta", 2), ("xlm-roberta", 2)):  # after the padding token's number, 1
        encoder = load_encoder(save_tiny(tmp_path_factory.mktemp(kind), kind))
        seen: list[Tensor] = []
        embedding = encoder.model.get_submodule("embeddings.position_embeddings")
        embedding.register_forward_pre_hook(lambda _module, inputs, seen=seen: seen.append(inputs[0]))
        encoder(packed_batch(WINDOWS, np.arange(2)), layers=[0])
        assert seen[0].tolist() == [[first + place for place in (0, 1, 2, 3, 4, 0, 1, 2)]]


def test_a_model_that_skips_a_layer_is_a_bug_and_is_noticed(encoder: Encoder) -> None:
    listed = encoder.model.get_submodule("encoder.layer")
    assert isinstance(listed, nn.ModuleList)
    encoder.model.get_submodule("encoder").layer = listed[:2]
    with pytest.raises(RuntimeError, match="tiny called 2 layers, 3 were expected"):
        encoder(BATCH)


@torch.no_grad()
def test_an_error_in_a_visitor_leaves_the_encoder_as_it_was(encoder: Encoder) -> None:
    before = encoder(BATCH).states

    def fail(layer: int, _states: Tensor) -> None:
        if layer == 1:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        encoder.visit(BATCH, fail)
    torch.testing.assert_close(encoder(BATCH).states, before, rtol=EXACT, atol=EXACT)


@torch.no_grad()
def test_the_pooled_vector_comes_from_the_whole_depth_whatever_layers_are_asked_for(encoder: Encoder) -> None:
    hidden = encoder(BATCH, layers=[1], pooled=True)
    first = encoder(BATCH).states[:, -1, 0]
    weight, bias = (encoder.model.get_parameter(f"pooler.dense.{name}") for name in ("weight", "bias"))
    torch.testing.assert_close(hidden.pooled, torch.tanh(first @ weight.T + bias))
    assert encoder(BATCH, layers=[1]).pooled is None


@torch.no_grad()
def test_the_second_text_is_the_context_and_padding_is_none(encoder: Encoder) -> None:
    for layers in (None, [1]):
        context = encoder(BATCH, layers=layers).context
        # the second half of every window is in segment 1
        assert context.tolist() == [[False] * 3 + [True] * 2, [False] * 2 + [True] + [False] * 2]
    assert encoder(BATCH, pooled=True).with_pooled().context.tolist() == context.tolist()


@torch.no_grad()
def test_packed_windows_have_their_context_too(tmp_path: Path) -> None:
    # RoBERTa reads no segment numbers, but its heads may ask where the context is
    encoder = load_encoder(save_tiny(tmp_path, "roberta"))
    context = encoder(packed_batch(WINDOWS, np.arange(2))).context
    assert context.tolist() == [[False] * 3 + [True] * 2 + [False] * 2 + [True]]


@pytest.mark.parametrize("kind", ["roberta", "bert"])  # BERT with such a tokenizer: multilingual E5
@torch.no_grad()
def test_the_second_text_is_the_context_where_both_texts_have_one_segment(kind: str, tmp_path: Path) -> None:
    name = save_tiny_same_segment(tmp_path, kind)
    encoder, tokenizer = load_encoder(name), TextTokenizer.load(name)
    pairs = Texts(["0", "1"], ["ab", "a"], ["c", "def"], np.zeros(2, dtype=np.int64))
    options = WindowOptions(length=16)
    windows = build_windows(TASKS["quora"], pairs, tokenizer, options)
    expected = [[place in places for place in range(8)] for places in ([5], [4, 5, 6])]  # <s> a b </s> </s> c </s>
    rows = np.arange(2)
    batch = padded_batch(windows, rows)
    hidden = encoder(batch)
    assert hidden.context.tolist() == expected
    assert encoder(packed_batch(windows, rows)).context.tolist() == [[*expected[0][:7], *expected[1]]]
    plain = encoder(replace(batch, types=torch.zeros_like(batch.types)))
    torch.testing.assert_close(hidden.states, plain.states, rtol=EXACT, atol=EXACT)
    single = build_windows(TASKS["quora"], replace(pairs, pairs=None), tokenizer, options)
    assert not encoder(padded_batch(single, rows)).context.any()


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoder_knows_whether_it_has_a_pooled_vector(kind: str) -> None:
    encoder = Encoder(tiny_model(kind), name="tiny")
    assert encoder.can_pool == (kind in POOLED)
    drop_pooler(encoder.model)
    assert not encoder.can_pool


@torch.no_grad()
def test_compiled_layers_still_show_their_states_and_stop_in_time(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []

    def record(function: object, *, dynamic: bool) -> object:
        assert dynamic  # else every new number of tokens is compiled anew
        compiled.append(function)
        return function

    before = encoder(BATCH).states
    monkeypatch.setattr(torch, "compile", record)
    encoder.compile_layers()
    assert compiled == [type(encoder.blocks[0]).forward]  # once for all layers: they differ in their weights alone
    torch.testing.assert_close(encoder(BATCH).states, before, rtol=EXACT, atol=EXACT)
    torch.testing.assert_close(encoder(BATCH, layers=[1]).states, before[:, 1:2], rtol=EXACT, atol=EXACT)


def shaky(kind: str) -> Encoder:
    """An encoder in training in which every dropout of the config is 0.5."""
    config = tiny_config(kind)
    for name in vars(config):
        if "dropout" in name and isinstance(getattr(config, name), float):
            setattr(config, name, 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # transformers' DeBERTa still uses torch.jit.script
        return Encoder(AutoModel.from_config(config), name=kind).train()


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_can_be_switched_off_in_every_architecture(kind: str) -> None:
    encoder = shaky(kind)
    batch = padded_batch(tiny_windows(7, 7), np.arange(2), pad=encoder.config.pad_token_id)
    assert not torch.equal(encoder(batch).states, encoder(batch).states)
    encoder.set_dropout(0.0)
    assert torch.equal(encoder(batch).states, encoder(batch).states)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_weights_are_never_dropped(kind: str) -> None:
    encoder = shaky(kind)
    encoder.set_dropout(0.3)
    for block in encoder.blocks:
        owner, _, name = encoder.architecture.attention_dropout.rpartition(".")
        dropout = getattr(block.get_submodule(owner), name)
        assert (dropout.p if isinstance(dropout, nn.Dropout) else dropout) == 0.0
