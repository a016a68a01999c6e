"""A pack is a folder that loads over its own encoder, and over no other."""

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import load_encoder
from bertvision.encoder.lora import add_lora
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError
from bertvision.pack_files import BUILTIN_PACK, builtin_pack
from bertvision.packs.card import Keep, read_pack_card
from bertvision.packs.model_card import model_card
from bertvision.packs.models import PackModels
from bertvision.packs.pack import Pack, write_pack
from bertvision.packs.pack_folder import locate_pack, with_folder
from bertvision.provenance import file_digest
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Pairs, Task
from folders import differences, everything
from tiny_pack import TAGS, make_pack
from tiny_run import save_tiny_encoder
from two_at_once import while_writing


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def pack(tmp_path: Path, encoder: str) -> Pack:
    return make_pack(tmp_path / "pack", encoder, TASKS["squad2"], threshold=0.25)


def lora_changes(encoder: str) -> dict[str, Any]:
    loaded = load_encoder(encoder)
    loaded.model.requires_grad_(requires_grad=False)
    add_lora(loaded, 2)
    torch.manual_seed(1)
    return {n: torch.randn(v.shape) for n, v in loaded.model.named_parameters() if v.requires_grad}


def drop_digests(pack: Pack) -> None:
    """Make its card one of an earlier version."""
    path = pack.folder / "pack.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content.pop("digests")
    path.write_text(json.dumps(content), encoding="utf-8")


def first_weights(encoder: Encoder) -> list[torch.Tensor]:
    return [value.detach() for value in encoder.model.parameters()]


@pytest.mark.parametrize("task", [TASKS["squad2"], TASKS["sst2"], TASKS["sts"], TAGS], ids=lambda task: task.name)
def test_a_card_is_read_as_it_was_written(tmp_path: Path, encoder: str, task: Task) -> None:
    card = make_pack(tmp_path / "pack", encoder, task).card
    again = read_pack_card(tmp_path / "pack")
    assert again == card
    for field in ("name", "kind", "labels", "layout", "limits", "metrics"):
        assert getattr(again.task, field) == getattr(task, field)


def test_a_pack_holds_safetensors_json_and_a_card_that_all_may_read(pack: Pack) -> None:
    assert {path.suffix for path in pack.folder.rglob("*") if path.is_file()} == {".json", ".safetensors", ".md"}
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in pack.folder.rglob("*") if path.is_file())
    assert pack.bytes == sum(len(content) for content in everything(pack.folder).values())


def test_another_encoder_is_refused_by_its_fingerprint(pack: Pack, tmp_path: Path) -> None:
    other = save_tiny_encoder(tmp_path / "other", seed=1)
    with pytest.raises(BertVisionError, match=rf"with fingerprint {pack.card.fingerprint}; '.*other' has \w+\. Name"):
        pack.load_encoder(encoder=other, device="cpu")


def test_the_same_weights_elsewhere_are_accepted(pack: Pack, tmp_path: Path, encoder: str) -> None:
    shutil.copytree(encoder, tmp_path / "moved")
    assert pack.load_encoder(encoder=str(tmp_path / "moved"), device="cpu").depth == 2


def test_changes_are_put_into_the_encoder_one_after_the_other(tmp_path: Path, encoder: str) -> None:
    changes = lora_changes(encoder)
    once = make_pack(tmp_path / "once", encoder, TASKS["sst2"], learn=["lora:2"], changes=[changes])
    twice = make_pack(tmp_path / "twice", encoder, TASKS["sst2"], learn=["lora:2"] * 2, changes=[changes] * 2)
    states = [first_weights(one) for one in (load_encoder(encoder), once.load_encoder(), twice.load_encoder())]
    moved = [float((b - a).abs().max()) for a, b in zip(states[0], states[1], strict=True)]
    assert max(moved) > 0.1
    for plain, one, two in zip(*states, strict=True):
        assert torch.allclose(two - plain, 2 * (one - plain), atol=1e-4)
    assert once.encoder_id != twice.encoder_id


def test_float16_halves_what_changed_and_keeps_what_it_cannot_hold(tmp_path: Path, encoder: str) -> None:
    wide = make_pack(tmp_path / "wide", encoder, TASKS["sst2"])
    changes = {"a": torch.randn(2000), "b": torch.tensor([1e6])}
    card = replace(wide.card, learn=("lora:1",))
    keeps: tuple[Keep, ...] = ("float16", "float32")
    for keep in keeps:
        heads = dict(zip(card.heads, wide.load_heads(), strict=True))
        write_pack(tmp_path / keep, card, changes=[changes], heads=heads, keep=keep)
    kept = load_file(tmp_path / "float16" / "encoder-0.safetensors")
    assert (kept["a"].dtype, kept["b"].dtype) == (torch.float16, torch.float32)
    assert load_file(tmp_path / "float32" / "encoder-0.safetensors")["a"].dtype == torch.float32
    head = Pack.load(tmp_path / "float16").load_heads()[0]
    assert next(head.parameters()).dtype == torch.float32


def test_save_pretrained_makes_a_copy_that_loads(pack: Pack, tmp_path: Path) -> None:
    pack.save_pretrained(tmp_path / "copy")
    assert differences(tmp_path / "copy", pack.folder) == []
    assert Pack.from_pretrained(tmp_path / "copy").card == pack.card
    pack.save_pretrained(pack.folder)
    assert Pack.load(pack.folder).card == pack.card
    before = sorted(pack.folder.rglob("*"))
    with pytest.raises(BertVisionError, match=r"lies in the pack .* itself\. Use another folder"):
        pack.save_pretrained(pack.folder / "copy")
    assert sorted(pack.folder.rglob("*")) == before


def test_a_folder_with_other_things_is_left_alone(pack: Pack, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious", encoding="utf-8")
    with pytest.raises(BertVisionError, match="is there already and is no pack"):
        pack.save_pretrained(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").is_file()


@pytest.mark.parametrize(("apart", "pairs"), [(True, "apart"), (False, "together")])
def test_a_card_of_before_texts_could_be_aligned_is_understood(
    *, apart: bool, pairs: Pairs, tmp_path: Path, encoder: str
) -> None:
    pack = make_pack(tmp_path / "pack", encoder, TASKS["sts"], pairs=pairs)
    path = pack.folder / "pack.json"
    card = json.loads(path.read_text(encoding="utf-8"))
    del card["pairs"]
    path.write_text(json.dumps(card | {"apart": apart}), encoding="utf-8")
    assert read_pack_card(pack.folder) == pack.card
    assert pack.card.separate == apart


def test_a_pack_that_cannot_be_written_leaves_nothing(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copytree", fail)
    with pytest.raises(BertVisionError, match="No space left on device"):
        pack.save_pretrained(tmp_path / "copy")
    assert not [path for path in tmp_path.iterdir() if "copy" in path.name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "has format 99, 1 is expected"),
        ({"heads": ["../../elsewhere"]}, "names of folders are expected"),
        ({"heads": []}, "names of folders are expected"),
        ({"windows": {"lengths": 3}}, "cannot be read"),
    ],
)
def test_a_card_that_is_not_right_is_refused(pack: Pack, change: dict[str, Any], message: str) -> None:
    path = pack.folder / "pack.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")
    with pytest.raises(BertVisionError, match=message):
        Pack.load(pack.folder)


def test_a_pack_without_its_head_is_not_whole(pack: Pack) -> None:
    (pack.folder / "heads" / pack.card.heads[0] / "head.safetensors").unlink()
    with pytest.raises(BertVisionError, match=r"is not whole: heads/000-last_layer/head\.safetensors"):
        Pack.load(pack.folder)


def test_a_folder_without_a_pack_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(
        BertVisionError, match=r"holds no pack: pack\.json is not there\. Make one: bertvision pack RUN"
    ):
        Pack.from_pretrained(tmp_path)


def test_damaged_changes_are_refused(tmp_path: Path, encoder: str) -> None:
    made = make_pack(tmp_path / "p", encoder, TASKS["sst2"], learn=["lora:2"], changes=[lora_changes(encoder)])
    (made.folder / "encoder-0.safetensors").write_bytes(b"no")
    with pytest.raises(BertVisionError, match=r"encoder-0\.safetensors is damaged"):
        made.load_encoder(device="cpu")
    drop_digests(made)
    with pytest.raises(BertVisionError, match="cannot be read"):
        made.load_encoder(device="cpu")


def test_a_flipped_bit_of_a_head_is_told_and_packs_without_digests_still_load(pack: Pack) -> None:
    path = pack.folder / "heads" / pack.card.heads[0] / "head.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # a number, which any other would do for
    path.write_bytes(content)
    with pytest.raises(BertVisionError, match=rf"{path} is damaged: .* Copy it again, or make it again"):
        Pack.load(pack.folder).load_heads()
    drop_digests(pack)
    again = Pack.load(pack.folder)
    assert again.card.digests == {}
    assert again.load_heads()


def test_files_of_weights_are_hashed_once_and_only_where_they_are_loaded(
    tmp_path: Path, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_pack(tmp_path / "p", encoder, TASKS["sst2"], learn=["lora:2"], changes=[lora_changes(encoder)])
    hashed: list[str] = []

    def digest(path: Path) -> str:
        hashed.append(path.name)
        return file_digest(path)

    monkeypatch.setattr("bertvision.pack_files.file_digest", digest)
    monkeypatch.setattr("bertvision.packs.pack.file_digest", digest)
    again = Pack.load(made.folder)
    assert again.encoder_id == made.encoder_id
    assert base_encoder(str(made.folder)) == encoder
    assert hashed == []
    PackModels([again], device="cpu")
    assert hashed == ["encoder-0.safetensors", "head.safetensors"]


def test_digests_that_are_none_are_told(pack: Pack) -> None:
    path = pack.folder / "pack.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"digests": 3}), encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"pack\.json cannot be read"):
        Pack.load(pack.folder)


def test_a_name_is_looked_for_on_the_hub_and_only_a_pack_s_files_are_fetched(
    pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, *, allow_patterns: list[str]) -> str:
        asked.update(name=name, patterns=allow_patterns)
        return str(pack.folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert Pack.from_pretrained("someone/mood").card == pack.card
    assert asked["name"] == "someone/mood"
    assert all(pattern.endswith((".json", ".safetensors", ".onnx", "README.md")) for pattern in asked["patterns"])


def test_a_name_that_the_hub_does_not_know_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(*_: object, **__: object) -> str:
        raise OSError("404\nlong story")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(BertVisionError, match=r"there is no pack 'someone/mood' \(404\)\. Expected a folder"):
        Pack.from_pretrained("someone/mood")


def test_push_to_hub_uploads_the_folder(pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, Any]] = []

    class Api:
        def create_repo(self, name: str, *, private: bool, exist_ok: bool) -> str:
            assert exist_ok
            calls.append((name, private))
            return f"https://hub/{name}"

        def upload_folder(self, *, repo_id: str, folder_path: str, allow_patterns: list[str]) -> None:
            assert allow_patterns
            calls.append((repo_id, folder_path))

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    assert pack.push_to_hub("me/mood", private=True) == "https://hub/me/mood"
    assert calls == [("me/mood", True), ("me/mood", str(pack.folder))]
    monkeypatch.delattr(Api, "upload_folder")
    with pytest.raises(BertVisionError, match="Sign in first: hf auth login"):
        pack.push_to_hub("me/mood")


def test_a_folder_of_one_s_own_comes_before_the_shipped_pack_of_that_name(
    pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(pack.folder, tmp_path / BUILTIN_PACK)
    assert locate_pack(BUILTIN_PACK) == builtin_pack()
    monkeypatch.chdir(tmp_path)
    assert locate_pack(BUILTIN_PACK) == Path(BUILTIN_PACK)


def test_the_shipped_pack_is_used_where_it_lies(pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertvision.pack_files.BUILTIN_PACKS", tmp_path / "builtin")
    with pytest.raises(BertVisionError, match=r"carries no question-answering pack\. Name one with --pack"):
        builtin_pack()
    pack.save_pretrained(tmp_path / "builtin" / "qa-minilm")
    assert Pack.from_pretrained().card == pack.card


def test_the_card_for_the_hub_has_front_matter_data_scores_limits_and_licence(pack: Pack) -> None:
    text = model_card(pack.card)
    front = text.split("---")[1]
    assert 'license: "mit"' in front
    assert 'pipeline_tag: "question-answering"' in front
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## Data", "## Scores", "## Limits", "## Licence",
    ]  # fmt: skip
    assert "no-answer threshold: 0.25" in text
    assert "| f1 | 0.5 |" in text


def test_two_packs_into_one_folder_are_written_one_after_the_other(tmp_path: Path) -> None:
    folder, others = tmp_path / "pack", list[threading.Thread]()

    def write_first(part: Path) -> None:
        others.append(
            while_writing(lambda: with_folder(folder, lambda part: (part / "pack.json").write_text("second")))
        )
        (part / "pack.json").write_text("first")

    with_folder(folder, write_first)
    others[0].join()
    assert (folder / "pack.json").read_text() == "second"
