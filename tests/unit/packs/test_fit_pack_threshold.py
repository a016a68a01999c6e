"""The script that fits a pack's threshold writes what the pack then does."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from bertvision.cli.main import main
from bertvision.errors import BertVisionError
from bertvision.evaluation.score import score_squad2
from bertvision.packs.pack import Pack
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import TASKS, load_task
from conftest import load_script
from tiny_pack import make_pack
from tiny_run import save_tiny_encoder, write_questions


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("tools/fit_pack_threshold.py")


def questions(data: Path, split: str) -> Questions:
    found = load_task("squad2", data=data).splits[split]
    assert isinstance(found, Questions)
    return found


def test_a_pack_answers_by_the_new_threshold_and_its_card_says_how_well(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(write_questions(tmp_path / "data", train=30, dev=20))
    pack = make_pack(tmp_path / "pack", save_tiny_encoder(tmp_path / "encoder"), TASKS["squad2"], threshold=0.0)
    train, dev = data / "train.json", data / "dev.json"
    assert script.main([str(pack.folder), "--on", str(train), "--dev", str(dev)]) == 0
    card = Pack.load(pack.folder).card
    assert card.threshold != 0.0
    assert f"'threshold': {card.threshold}" in capsys.readouterr().out
    assert card.data == {"source": "nothing", "threshold fitted on": "30 train.json"}
    assert "- threshold fitted on: 30 train.json" in (pack.folder / "README.md").read_text(encoding="utf-8")
    found = {}
    for split, path in (("train", train), ("dev", dev)):
        out = tmp_path / f"{split}-said.json"
        assert main(["predict", "squad2", str(path), "--pack", str(pack.folder), "--out", str(out)]) == 0
        golds = questions(data, split).golds()
        found[split] = score_squad2(golds, json.loads(out.read_text(encoding="utf-8"))).values["f1"]
    assert card.scores == {"f1": pytest.approx(found["dev"])}
    golds = questions(data, "train").golds()
    silence = score_squad2(golds, dict.fromkeys(golds, "")).values
    assert found["train"] >= silence["f1"]  # never answering is one of the thresholds


def test_questions_it_is_judged_by_are_not_those_it_is_fitted_on(script: ModuleType, tmp_path: Path) -> None:
    data = Path(write_questions(tmp_path / "data"))
    pack = make_pack(tmp_path / "pack", save_tiny_encoder(tmp_path / "encoder"), TASKS["squad2"], threshold=0.0)
    before = (pack.folder / "pack.json").read_bytes()
    with pytest.raises(BertVisionError, match="fitted on"):
        script.fit_pack_threshold(pack.folder, str(data / "dev.json"), data / "dev.json")
    assert (pack.folder / "pack.json").read_bytes() == before
