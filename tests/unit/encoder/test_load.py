import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForQuestionAnswering, GPT2Config
from transformers.utils import logging

from bertvision import pretrained
from bertvision.encoder import Encoder, apply_learn, build_encoder, load_encoder, parse_learn
from bertvision.encoder.batch import packed_batch, padded_batch
from bertvision.encoder.delta import changed_weights, freeze
from bertvision.encoder.load import fingerprint, mean_pooled, usual_pool
from bertvision.encoder.snapshot import SNAPSHOTS, Snapshot, save_snapshot
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.tasks.tokenizer import TextTokenizer
from close import EXACT, FLOAT32, HALF
from fake_hub import keep_in_hub_cache
from tiny_models import save_tiny, tiny_model, tiny_windows

WINDOWS = tiny_windows(7, 5)
BATCH = padded_batch(WINDOWS, np.arange(2))
WEIGHT = "encoder.layer.1.output.dense.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_tiny(tmp_path / "encoder")
    return tmp_path / "encoder"


def tune(encoder: Encoder, learn: str) -> None:
    """Move everything that learns, as tuning would."""
    apply_learn(encoder, parse_learn(learn))
    random = torch.Generator().manual_seed(7)
    for value in encoder.model.parameters():
        if value.requires_grad:
            value.data += 0.1 * torch.randn(value.shape, generator=random)


def save_run(
    run: Path, name: str, learn: str, fraction: float = 0.3, *, pooled: bool = False, pool: str = "cls"
) -> Encoder:
    """Tune an encoder, with its pooler or without, and keep a snapshot of it; returns the tuned encoder."""
    encoder = load_encoder(name, pooler=pooled)
    before = fingerprint(encoder)
    tune(encoder, learn)
    snapshot = Snapshot(
        folder=run / SNAPSHOTS / f"{fraction:g}",
        fraction=fraction,
        step=10,
        encoder=name,
        fingerprint=before,
        learn=learn,
        task="sst2",
        head="last_layer",
        pooled=pooled,
        pool=pool,
        labels=(),
        schedule="constant",
        total_epochs=1.0,
    )
    save_snapshot(snapshot, changed_weights(encoder), lambda _folder: None)
    return encoder


@torch.no_grad()
def states(encoder: Encoder) -> Tensor:
    hidden: Tensor = encoder(BATCH).states
    return hidden


def edit_weights(folder: Path, edit: Callable[[dict[str, Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    edit(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


# ── untuned ──────────────────────────────────────────────────────────────────


def test_the_built_in_encoder_loads() -> None:
    encoder = load_encoder()
    assert (encoder.name, encoder.depth, encoder.width) == ("minilm", 6, 384)
    assert not any(module.training for module in encoder.modules())


def test_the_built_in_encoder_s_weights_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_tiny(tmp_path)
    monkeypatch.setattr(pretrained, "builtin_encoder_folder", lambda: tmp_path)
    with pytest.raises(BertVisionError, match="the built-in encoder's weights have sha256"):
        load_encoder("minilm")


def test_a_local_folder_gives_its_weights_and_its_tokenizer(folder: Path) -> None:
    torch.testing.assert_close(states(load_encoder(str(folder))), states(Encoder(tiny_model(), name="")))
    assert TextTokenizer.load(str(folder)).pieces(["Ada."]) == [["a", "##d", "##a", "."]]


def test_the_pooler_is_left_out_unless_it_is_asked_for(folder: Path) -> None:
    names = load_encoder(str(folder)).model.state_dict().keys()
    more = load_encoder(str(folder), pooler=True).model.state_dict().keys()
    assert more - names == {"pooler.dense.weight", "pooler.dense.bias"}


def test_half_precision_is_near(folder: Path) -> None:
    half = load_encoder(str(folder), precision="bfloat16")
    assert {value.dtype for value in half.parameters()} == {torch.bfloat16}
    torch.testing.assert_close(states(half).float(), states(load_encoder(str(folder))), rtol=HALF, atol=HALF)


def test_loading_says_nothing_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    name = save_tiny(tmp_path, auto=AutoModelForQuestionAnswering)  # transformers reports what it does not use
    before = logging.get_verbosity()
    logging.add_handler(caplog.handler)
    capfd.readouterr()
    load_encoder(name)
    logging.remove_handler(caplog.handler)
    assert capfd.readouterr() == ("", "")
    assert caplog.messages == []
    assert logging.get_verbosity() == before


# ── what is not whole ────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.safetensors", None, "cannot be loaded .*no file named model.safetensors"),
        ("model.safetensors", b"", "cannot be loaded .*header too small"),
        ("model.safetensors", b"half a file" * 9, "cannot be loaded .*header"),
        ("config.json", None, "cannot be loaded .*"),
        ("config.json", b"{", "cannot be loaded .*not a valid JSON file"),
        ("config.json", b'{"model_type": "nonsense"}', "cannot be loaded .*nonsense"),
        ("config.json", b'{"model_type": "bert", "hidden_size": "wide"}', "cannot be loaded .*hidden_size"),
    ],
)
def test_a_folder_that_is_not_whole_is_named(folder: Path, file: str, content: bytes | None, message: str) -> None:
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(BertVisionError, match=rf"encoder '{folder}' {message}.*Expected 'minilm', a folder with"):
        load_encoder(str(folder))


def test_weights_that_were_cut_off_are_named(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BertVisionError, match=rf"encoder '{folder}' cannot be loaded"):
        load_encoder(str(folder))


def test_weights_that_are_missing_are_counted_and_the_first_named(folder: Path) -> None:
    edit_weights(folder, lambda weights: [weights.pop(WEIGHT), weights.pop(WEIGHT.replace("layer.1", "layer.2"))])
    with pytest.raises(BertVisionError, match=rf"lacks 2 weights, first '{WEIGHT}'. Is it whole\?"):
        load_encoder(str(folder))


def test_weights_of_another_shape_are_named(folder: Path) -> None:
    edit_weights(folder, lambda weights: weights.update({WEIGHT: torch.zeros(3, 3)}))
    with pytest.raises(BertVisionError, match=rf"'{WEIGHT}' has shape \(3, 3\), its config.json asks for \(16, 24\)"):
        load_encoder(str(folder))


def test_a_pooler_that_the_checkpoint_does_not_have_is_not_made_up(tmp_path: Path) -> None:
    name = save_tiny(tmp_path, auto=AutoModelForQuestionAnswering)
    with pytest.raises(BertVisionError, match="has no pooled vector"):
        load_encoder(name, pooler=True)(BATCH, pooled=True)


def test_a_path_that_is_no_folder_is_named() -> None:
    with pytest.raises(BertVisionError, match=r"encoder '\./nowhere' is not a folder"):
        load_encoder("./nowhere")


# ── configs alone ────────────────────────────────────────────────────────────


def test_a_config_gives_an_encoder_of_any_size_without_weights(folder: Path) -> None:
    for source in (str(folder), str(folder / "config.json"), "minilm"):
        encoder = build_encoder(source)
        assert (encoder.name, encoder.device.type) == (source, "meta")
    assert build_encoder("minilm").depth == 6


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a valid JSON file"),
        ("{}", "model_type"),
        ('{"model_type": "bert", "hidden_size": "wide"}', "hidden_size"),
        ('{"model_type": "bert", "num_attention_heads": 7}', "not a multiple of the number of attention heads"),
    ],
)
def test_a_config_that_is_not_right_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(BertVisionError, match=rf"no config for encoder '{tmp_path}.*{message}"):
        build_encoder(str(tmp_path / "config.json"))


def test_a_config_file_that_is_not_there_is_not_looked_for_on_the_hub(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"no config for encoder '.*nowhere\.json': there is no such file"):
        build_encoder(str(tmp_path / "nowhere.json"))


def test_a_model_that_is_no_encoder_is_refused(tmp_path: Path) -> None:
    GPT2Config(n_embd=8, n_layer=1, n_head=1).save_pretrained(tmp_path)
    with pytest.raises(UnknownNameError, match=r"unknown encoder architecture 'gpt2'\. .*Known: albert, bert"):
        build_encoder(str(tmp_path))


# ── what else a folder says ──────────────────────────────────────────────────


def test_a_folder_says_whether_its_sentence_vector_is_the_mean(folder: Path, tmp_path: Path) -> None:
    assert mean_pooled("minilm")
    assert not mean_pooled(str(folder))
    save_run(tmp_path / "run", str(folder), "none")
    for mean in (True, False):
        (folder / "1_Pooling").mkdir(exist_ok=True)
        config = {"pooling_mode_cls_token": not mean, "pooling_mode_mean_tokens": mean}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(config), encoding="utf-8")
        assert mean_pooled(str(folder)) is mean
        assert mean_pooled(str(tmp_path / "run")) is mean  # as the encoder that was tuned


def test_a_tuned_encoder_is_pooled_as_it_was_tuned(folder: Path, tmp_path: Path) -> None:
    save_run(tmp_path / "mean", str(folder), "bitfit", pool="mean")
    save_run(tmp_path / "first", str(tmp_path / "mean"), "bitfit", pool="cls")
    save_run(tmp_path / "frozen", str(tmp_path / "mean"), "none", pool="cls")
    pools = {name: usual_pool(str(tmp_path / name)) for name in ("mean", "first", "frozen")}
    assert pools == {"mean": "mean", "first": "cls", "frozen": "mean"}


@pytest.mark.parametrize(
    ("config", "mean"),
    [
        ({"embedding_dimension": 16, "pooling_mode": "mean", "include_prompt": True}, True),  # since 5.4
        ({"pooling_mode": "cls"}, False),
        ({"pooling_mode": ["cls", "mean"]}, True),
        ({"pooling_mode": ["cls", "max"]}, False),
        ([], False),
    ],
)
def test_every_form_that_sentence_transformers_has_for_the_mean_is_read(
    config: object, folder: Path, *, mean: bool
) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert mean_pooled(str(folder)) is mean


def test_a_damaged_config_of_the_pooling_is_named(folder: Path) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"1_Pooling/config\.json:1: not JSON"):
        mean_pooled(str(folder))


def test_an_encoder_of_the_hub_is_pooled_as_the_same_files_in_a_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}', encoding="utf-8")
    keep_in_hub_cache(folder, "some/encoder", tmp_path / "hub", monkeypatch)
    torch.testing.assert_close(states(load_encoder("some/encoder")), states(load_encoder(str(folder))))
    assert (usual_pool(str(folder)), usual_pool("some/encoder")) == ("mean", "mean")


# ── tuned ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("learn", ["full", "top:1", "houlsby:4", "lora:2", "bitfit"])
def test_a_snapshot_gives_the_tuned_encoder_frozen(folder: Path, tmp_path: Path, learn: str) -> None:
    tuned = save_run(tmp_path / "run", str(folder), learn)
    untuned = states(load_encoder(str(folder)))
    encoder = load_encoder(f"{tmp_path}/run@0.3")
    tolerance = FLOAT32 if learn == "lora:2" else EXACT  # low-rank changes are merged
    torch.testing.assert_close(states(encoder), states(tuned), rtol=tolerance, atol=tolerance)
    assert not torch.allclose(states(encoder), untuned, rtol=FLOAT32, atol=FLOAT32)
    assert encoder.name == f"{tmp_path}/run@0.3"
    assert not any(value.requires_grad for value in encoder.parameters())


def test_a_run_means_its_last_snapshot(folder: Path, tmp_path: Path) -> None:
    save_run(tmp_path / "run", str(folder), "top:1", 0.3)
    last = save_run(tmp_path / "run", str(folder), "bitfit", 1.0)
    torch.testing.assert_close(states(load_encoder(str(tmp_path / "run"))), states(last), rtol=EXACT, atol=EXACT)


def test_a_tuned_encoder_takes_every_setting_of_an_untuned_one(folder: Path, tmp_path: Path) -> None:
    tuned = save_run(tmp_path / "run", str(folder), "full")
    encoder = load_encoder(f"{tmp_path}/run", pooler=True)
    with torch.no_grad():
        packed = encoder(packed_batch(WINDOWS, np.arange(2))).states[0]  # (layers, tokens, width)
    expected = states(tuned).transpose(1, 2)[BATCH.mask].transpose(0, 1)
    torch.testing.assert_close(packed, expected, rtol=FLOAT32, atol=FLOAT32)
    assert "pooler.dense.weight" in encoder.model.state_dict()
    half = load_encoder(f"{tmp_path}/run", precision="bfloat16")
    assert {value.dtype for value in half.parameters()} == {torch.bfloat16}
    torch.testing.assert_close(states(half).float(), states(tuned), rtol=HALF, atol=HALF)


@torch.no_grad()
def test_a_pooler_that_was_tuned_comes_back_when_it_is_asked_for(folder: Path, tmp_path: Path) -> None:
    tuned = save_run(tmp_path / "run", str(folder), "full", pooled=True)
    whole = load_encoder(f"{tmp_path}/run", pooler=True)
    expected = tuned(BATCH, pooled=True)
    got = whole(BATCH, pooled=True)
    torch.testing.assert_close(got.states, expected.states, rtol=EXACT, atol=EXACT)
    torch.testing.assert_close(got.pooled, expected.pooled, rtol=EXACT, atol=EXACT)
    untuned = load_encoder(str(folder), pooler=True).model.get_parameter("pooler.dense.weight")
    assert not torch.equal(whole.model.get_parameter("pooler.dense.weight"), untuned)
    assert not any(value.requires_grad for value in whole.parameters())


@pytest.mark.parametrize("learn", ["full", "top:1", "lora:2", "bitfit", "houlsby:4"])
def test_a_run_with_a_pooler_gives_the_encoder_without_it_too(folder: Path, tmp_path: Path, learn: str) -> None:
    tuned = save_run(tmp_path / "run", str(folder), learn, pooled=True)
    encoder = load_encoder(f"{tmp_path}/run")
    freeze(tuned)
    torch.testing.assert_close(states(encoder), states(tuned), rtol=EXACT, atol=EXACT)
    assert not [name for name in encoder.model.state_dict() if name.startswith("pooler")]


@pytest.mark.parametrize("pooled", [True, False])
def test_a_run_with_a_pooler_can_be_tuned_further_with_and_without_it(
    *, folder: Path, tmp_path: Path, pooled: bool
) -> None:
    save_run(tmp_path / "first", str(folder), "full", pooled=True)
    tuned = save_run(tmp_path / "second", f"{tmp_path}/first@0.3", "full", pooled=pooled)
    torch.testing.assert_close(states(load_encoder(f"{tmp_path}/second")), states(tuned), rtol=EXACT, atol=EXACT)
    weight = load_encoder(f"{tmp_path}/second", pooler=True).model.get_parameter("pooler.dense.weight")
    last = tuned if pooled else load_encoder(f"{tmp_path}/first", pooler=True)
    assert torch.equal(weight, last.model.get_parameter("pooler.dense.weight"))


@pytest.mark.parametrize("learn", ["lora:2", "top:1", "full"])
def test_a_tuned_encoder_can_be_tuned_further(folder: Path, tmp_path: Path, learn: str) -> None:
    save_run(tmp_path / "first", str(folder), "lora:2")
    tuned = save_run(tmp_path / "second", f"{tmp_path}/first@0.3", learn)
    freeze(tuned)
    torch.testing.assert_close(states(load_encoder(f"{tmp_path}/second")), states(tuned), rtol=EXACT, atol=EXACT)


def test_adapters_are_not_put_upon_adapters(folder: Path, tmp_path: Path) -> None:
    save_run(tmp_path / "first", str(folder), "houlsby:4")
    with pytest.raises(BertVisionError, match=r"has Houlsby adapters already\. Use another --learn"):
        save_run(tmp_path / "second", f"{tmp_path}/first@0.3", "houlsby:4")


def test_a_snapshot_of_other_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    save_run(tmp_path / "run", str(folder), "top:1")
    before = fingerprint(load_encoder(str(folder)))
    save_tiny(folder, seed=1)
    now = fingerprint(load_encoder(str(folder)))
    message = f"0.3 was tuned from {folder} with fingerprint {before}; '{folder}' has {now}. Use the same weights"
    with pytest.raises(BertVisionError, match=message):
        load_encoder(f"{tmp_path}/run")


def test_a_fingerprint_tells_encoders_apart(folder: Path) -> None:
    encoder = load_encoder(str(folder))
    assert fingerprint(encoder) == fingerprint(load_encoder(str(folder), pooler=True))
    assert len(fingerprint(encoder)) == 16
    seen = {fingerprint(encoder)}
    for name, value in encoder.model.named_parameters():
        value.data.flatten()[0] += 1
        assert fingerprint(encoder) not in seen, name
        seen.add(fingerprint(encoder))


def test_an_encoder_is_the_same_in_either_precision(folder: Path) -> None:
    wide = fingerprint(load_encoder(str(folder)))
    assert fingerprint(load_encoder(str(folder), precision="bfloat16")) == wide
