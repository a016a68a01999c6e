"""The script that trains the shipped pack learns from all that it is given, and judges by the named data alone."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from bertvision.tasks.load import load_task
from conftest import ROOT
from tiny_run import write_questions


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_qa_pack", ROOT / "tools" / "make_qa_pack.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_data_are_joined_without_repeats(script: ModuleType, tmp_path: Path) -> None:
    data = Path(write_questions(tmp_path / "data"))
    extra = Path(write_questions(tmp_path / "extra", train=50)) / "train.json"
    joined = load_task("squad2", data=script.join_data(str(data), [extra], tmp_path / "joined"))
    builtin = load_task("squad2", data="builtin").splits["train"]
    assert len(joined.splits["train"]) == 50 + len(builtin)
    assert set(builtin.ids) < set(joined.splits["train"].ids)
    dev = json.loads((data / "dev.json").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "joined" / "dev.json").read_text(encoding="utf-8")) == dev


def test_the_card_names_all_sources(script: ModuleType) -> None:
    assert script.source_name("data/squad2", [Path("more/wiki.json.gz")]) == "squad2+builtin+wiki"
    assert script.source_name("builtin", []) == "builtin"


def ask(key: str, answer: str) -> dict[str, object]:
    return {"id": key, "question": f"{key}?", "answers": [{"text": answer, "answer_start": 0}], "is_impossible": False}


def test_questions_go_astray_where_the_next_text_does_not_answer_them(script: ModuleType) -> None:
    paragraphs = [
        {"context": "Ada wrote it.", "qas": [ask("who", "Ada"), ask("what", "it")]},
        {"context": "It is old.", "qas": [ask("how", "old")]},
    ]
    first, second = script.article_astray({"title": "t", "paragraphs": paragraphs})["paragraphs"]
    assert [one["id"] for one in first["qas"]] == ["who", "what", "how-astray"]
    assert [one["id"] for one in second["qas"]] == ["how", "who-astray"]  # the other one's answer is there, too
    assert second["qas"][1] == {"id": "who-astray", "question": "who?", "answers": [], "is_impossible": True}
    assert len(paragraphs[0]["qas"]) == 2  # what was read stays as it was


def test_a_single_text_has_no_other(script: ModuleType) -> None:
    article = {"title": "t", "paragraphs": [{"context": "Ada.", "qas": [ask("who", "Ada")]}]}
    assert script.article_astray(article) == article
