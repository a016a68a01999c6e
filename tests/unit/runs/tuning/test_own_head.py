"""A tuned pack goes on from its head, where that is one for the task; else from a fresh one."""

import json
from pathlib import Path

import pytest
import torch

from bertvision.errors import BertVisionError
from bertvision.heads import load_head
from bertvision.packs.pack import Pack
from bertvision.runs.tuning.own_head import find_own_head
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.load import TASKS
from close import FLOAT32
from tiny_pack import make_pack
from tiny_run import save_tiny_encoder, tiny_request, write_labels, write_questions

STILL = {"epochs": 0.01, "lr": 1e-9, "head_lr": 1e-9, "learn": "top:1"}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_questions(tmp_path_factory.mktemp("questions"))


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory, encoder: str) -> Pack:
    return make_pack(tmp_path_factory.mktemp("pack"), encoder, TASKS["squad2"], heads=["adapter_pool_skip"])


def test_tuning_a_pack_goes_on_from_its_head(pack: Pack, questions: str, tmp_path: Path) -> None:
    request = tiny_request("squad2", questions, str(pack.folder), **STILL)
    head = load_head(tune(request, tmp_path / "run").snapshots[0].folder)
    (before,) = pack.load_heads()
    assert (head.name, head.options) == (before.name, before.options)
    for name, value in before.state_dict().items():
        torch.testing.assert_close(head.state_dict()[name], value, atol=FLOAT32, rtol=0)


def test_a_head_that_is_named_starts_afresh(pack: Pack, questions: str, tmp_path: Path) -> None:
    request = tiny_request("squad2", questions, str(pack.folder), head="adapter_pool_skip", **STILL)
    head = load_head(tune(request, tmp_path / "run").snapshots[0].folder)
    assert not torch.allclose(head.project.weight, pack.load_heads()[0].project.weight, atol=0.01)


def test_options_that_change_the_shape_of_its_head_are_refused(pack: Pack, questions: str, tmp_path: Path) -> None:
    request = tiny_request("squad2", questions, str(pack.folder), head_options={"size": 5}, **STILL)
    with pytest.raises(BertVisionError, match=r"--set: .*adapter_pool_skip.* start afresh: --head adapter_pool_skip"):
        tune(request, tmp_path / "run")


def test_a_pack_for_labels_or_with_several_heads_has_no_head_to_start_from(
    encoder: str, pack: Pack, tmp_path: Path
) -> None:
    labels = str(make_pack(tmp_path / "labels", encoder, TASKS["sst2"]).folder)
    several = str(make_pack(tmp_path / "several", encoder, TASKS["squad2"], heads=["last_layer", "layer_mix"]).folder)
    for name, task in [(labels, "sst2"), (labels, "squad2"), (several, "squad2"), (str(pack.folder), "sst2")]:
        assert find_own_head(name, TASKS[task]) is None
    request = tiny_request("sst2", write_labels(tmp_path / "data"), str(pack.folder), **STILL)
    assert load_head(tune(request, tmp_path / "run").snapshots[0].folder).name == "last_layer"


def test_a_card_that_does_not_tell_its_heads_is_refused(pack: Pack, tmp_path: Path) -> None:
    pack.save_pretrained(tmp_path / "pack")
    card = json.loads((tmp_path / "pack" / "pack.json").read_text(encoding="utf-8"))
    (tmp_path / "pack" / "pack.json").write_text(json.dumps(card | {"heads": None}), encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"pack\.json cannot be read .*Make the pack again"):
        find_own_head(str(tmp_path / "pack"), TASKS["squad2"])
