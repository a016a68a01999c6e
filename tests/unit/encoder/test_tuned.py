"""A tuned encoder is a run's or a pack's: what lies below it, what changed, and what is not whole."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bertvision.encoder.batch import TokenBatch
from bertvision.encoder.delta import changed_weights
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.encoder.load import fingerprint, load_encoder, mean_pooled, usual_pool
from bertvision.encoder.snapshot import SNAPSHOTS, Snapshot, save_snapshot
from bertvision.encoder.tuned import base_encoder, find_tuned, tunings
from bertvision.errors import BertVisionError
from bertvision.packs.pack import Pack
from bertvision.tasks.load import TASKS
from close import FLOAT32
from tiny_pack import make_pack
from tiny_run import save_tiny_encoder

IDS = torch.tensor([[2, 5, 6, 3, 12, 13, 14, 3]])
BATCH = TokenBatch(IDS, torch.zeros_like(IDS), torch.ones_like(IDS, dtype=torch.bool), None, 8)
ADAPTED = "encoder.layer.1.output.dense"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


def moved(encoder: str, learn: str, *, pooler: bool = False) -> dict[str, Tensor]:
    """What changed in an encoder in which all that learns has moved."""
    loaded = load_encoder(encoder, pooler=pooler)
    torch.manual_seed(3)
    apply_learn(loaded, parse_learn(learn))
    for value in loaded.model.parameters():
        if value.requires_grad:
            value.data += 0.1 * torch.randn(value.shape)
    return changed_weights(loaded)


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, encoder: str) -> Pack:
    folder = tmp_path_factory.mktemp("pack")
    return make_pack(folder, encoder, TASKS["squad2"], learn=["lora:2"], changes=[moved(encoder, "lora:2")])


def save_run(run: Path, name: str, learn: str) -> str:
    """A run with one snapshot of an encoder in which all that learns has moved; its folder."""
    snapshot = Snapshot(
        folder=run / SNAPSHOTS / "1",
        fraction=1.0,
        step=10,
        encoder=name,
        fingerprint=fingerprint(load_encoder(name)),
        learn=learn,
        task="squad2",
        head="last_layer",
        pooled=False,
        pool="cls",
        labels=(),
        schedule="constant",
        total_epochs=1.0,
    )
    save_snapshot(snapshot, moved(name, learn), lambda _folder: None)
    return str(run)


@torch.no_grad()
def states(encoder: Encoder) -> Tensor:
    hidden: Tensor = encoder(BATCH).states
    return hidden


def edit_card(pack: Pack, folder: Path, edit: Callable[[dict[str, Any]], object]) -> str:
    """A copy of a pack with another card; its folder."""
    pack.save_pretrained(folder)
    card = json.loads((folder / "pack.json").read_text(encoding="utf-8"))
    edit(card)
    (folder / "pack.json").write_text(json.dumps(card), encoding="utf-8")
    return str(folder)


def test_the_base_is_the_encoder_at_the_root(pack: Pack, encoder: str, tmp_path: Path) -> None:
    run = save_run(tmp_path / "first", encoder, "layernorm")
    assert base_encoder(save_run(tmp_path / "second", f"{run}@1", "top:1")) == encoder
    assert base_encoder(save_run(tmp_path / "third", str(pack.folder), "top:1")) == encoder
    assert base_encoder("some/encoder") == "some/encoder"
    assert find_tuned("some/encoder") is None


def test_every_tuning_is_named_the_first_first(pack: Pack, encoder: str, tmp_path: Path) -> None:
    run = save_run(tmp_path / "run", str(pack.folder), "top:1")
    assert [[stage.learn for stage in tuned.stages] for tuned in tunings(run)] == [["lora:2"], ["top:1"]]
    assert [tuned.licence for tuned in tunings(run)] == ["mit", None]
    assert tunings(encoder) == []


def test_a_low_rank_change_of_a_pack_is_merged_into_the_weights(pack: Pack, encoder: str) -> None:
    name = str(pack.folder)
    loaded, plain = load_encoder(name), load_encoder(encoder)
    changes = moved(encoder, "lora:2")
    down, up = (changes[f"{ADAPTED}.lora_{part}.bertvision.weight"] for part in "AB")
    expected = plain.model.get_parameter(f"{ADAPTED}.weight") + 2 * up @ down
    got = loaded.model.get_parameter(f"{ADAPTED}.weight")
    torch.testing.assert_close(got, expected, atol=FLOAT32, rtol=0)
    assert loaded.model.state_dict().keys() == plain.model.state_dict().keys()
    assert not any(value.requires_grad for value in loaded.model.parameters())
    assert (loaded.name, loaded.training) == (name, False)
    assert not mean_pooled(name)


def test_texts_are_pooled_as_by_the_heads_of_a_pack_if_its_encoder_was_tuned(
    pack: Pack, encoder: str, tmp_path: Path
) -> None:
    assert pack.card.pool == usual_pool(str(pack.folder)) == "mean"
    untuned = make_pack(tmp_path / "pack", encoder, TASKS["sst2"])
    assert (untuned.card.pool, usual_pool(str(untuned.folder))) == ("mean", "cls")


def test_a_pack_gives_the_same_states_to_those_who_fit_and_to_those_who_ask(pack: Pack, encoder: str) -> None:
    loaded = states(load_encoder(str(pack.folder)))
    assert torch.equal(loaded, states(pack.load_encoder(device="cpu")))
    assert not torch.allclose(loaded, states(load_encoder(encoder)), atol=0.01)


def test_a_pack_that_changed_nothing_gives_its_encoder(encoder: str, tmp_path: Path) -> None:
    pack = make_pack(tmp_path / "pack", encoder, TASKS["sst2"])
    loaded = load_encoder(str(pack.folder))
    assert torch.equal(states(loaded), states(load_encoder(encoder)))
    assert not any(value.requires_grad for value in loaded.model.parameters())


def test_a_pack_whose_pooler_learnt_gives_the_encoder_with_and_without_it(encoder: str, tmp_path: Path) -> None:
    changes = moved(encoder, "full", pooler=True)
    pack = make_pack(tmp_path / "pack", encoder, TASKS["sst2"], learn=["full"], changes=[changes])
    pooler = load_encoder(str(pack.folder), pooler=True).model.get_parameter("pooler.dense.weight")
    assert torch.equal(pooler, changes["pooler.dense.weight"])
    assert torch.equal(states(load_encoder(str(pack.folder))), states(pack.load_encoder(device="cpu")))


def test_the_shipped_pack_is_an_encoder_by_its_name(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertvision.pack_files.BUILTIN_PACKS", tmp_path)
    with pytest.raises(BertVisionError, match="carries no question-answering pack"):
        load_encoder("qa-minilm")
    pack.save_pretrained(tmp_path / "qa-minilm")
    assert torch.equal(states(load_encoder("qa-minilm")), states(load_encoder(str(pack.folder))))


def test_a_pack_over_other_weights_is_refused(pack: Pack, encoder: str, tmp_path: Path) -> None:
    other = save_tiny_encoder(tmp_path / "other", seed=1)
    name = edit_card(pack, tmp_path / "pack", lambda card: card.update(encoder=other))
    expected = f"{name} was tuned from {other} with fingerprint {fingerprint(load_encoder(encoder))}; '{other}' has"
    with pytest.raises(BertVisionError, match=expected):
        load_encoder(name)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda card: card.update(format=7), "has format 7, 1 is expected; it was made by version"),
        (lambda card: card.pop("fingerprint"), "cannot be read.*fingerprint.*Make the pack again"),
        (lambda card: card.update(learn=None), "cannot be read.*Make the pack again"),
        (lambda card: card.update(learn=["lora:2", "top:1"]), r"lacks encoder-1\.safetensors, so it is no encoder\."),
    ],
)
def test_a_pack_that_is_not_whole_is_refused(
    pack: Pack, tmp_path: Path, edit: Callable[[dict[str, Any]], object], message: str
) -> None:
    with pytest.raises(BertVisionError, match=message):
        load_encoder(edit_card(pack, tmp_path / "pack", edit))


def test_changes_other_than_those_of_the_card_are_refused(pack: Pack, tmp_path: Path) -> None:
    pack.save_pretrained(tmp_path / "pack")
    (tmp_path / "pack" / "encoder-0.safetensors").write_bytes(b"no")
    with pytest.raises(BertVisionError, match=r"encoder-0\.safetensors is damaged"):
        load_encoder(str(tmp_path / "pack"))


def test_changes_that_cannot_be_read_are_named_where_the_card_has_no_digests(pack: Pack, tmp_path: Path) -> None:
    name = edit_card(pack, tmp_path / "pack", lambda card: card.pop("digests"))
    (tmp_path / "pack" / "encoder-0.safetensors").write_bytes(b"no")
    with pytest.raises(BertVisionError, match=r"encoder-0\.safetensors cannot be read"):
        load_encoder(name)
