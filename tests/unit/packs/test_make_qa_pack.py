"""The script that trains the shipped pack learns from all that it is given, and judges by the named data alone."""

import importlib.util
import json
from pathlib import Path

from bertvision.tasks.load import load_task
from conftest import ROOT
from tiny_run import write_questions


def test_data_are_joined_without_repeats(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_qa_pack", ROOT / "tools" / "make_qa_pack.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    data = Path(write_questions(tmp_path / "data"))
    extra = Path(write_questions(tmp_path / "extra", train=50)) / "train.json"
    joined = load_task("squad2", data=script.join_data(str(data), [extra], tmp_path / "joined"))
    builtin = load_task("squad2", data="builtin").splits["train"]
    assert len(joined.splits["train"]) == 50 + len(builtin)
    assert set(builtin.ids) < set(joined.splits["train"].ids)
    dev = json.loads((data / "dev.json").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "joined" / "dev.json").read_text(encoding="utf-8")) == dev
