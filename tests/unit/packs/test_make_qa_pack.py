"""The script that trains the shipped pack learns from all that it is given, and judges by the named data alone."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bertvision.cli.options import parse_options
from bertvision.cli.tune import Options
from bertvision.tasks.load import load_task
from conftest import load_script
from tiny_run import write_questions


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("tools/make_qa_pack.py")


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


def test_the_built_in_set_may_be_left_out(script: ModuleType, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data")
    joined = load_task("squad2", data=script.join_data(data, [], tmp_path / "joined", builtin=False))
    assert joined.splits["train"].ids == load_task("squad2", data=data).splits["train"].ids
    assert script.source_name("data/squad2", [], builtin=False) == "squad2"
    with pytest.raises(SystemExit):
        script.main(["--data", "builtin", "--without-builtin"])


def ask(key: str, question: str, *answers: str) -> dict[str, object]:
    listed = [{"text": answer, "answer_start": 0} for answer in answers]
    return {"id": key, "question": question, "answers": listed, "is_impossible": not answers}


def articles() -> list[dict[str, Any]]:
    """Two articles: three texts about writers, of which one is in another article, and one about nothing else."""
    ada = {"context": "Ada wrote the notes.", "qas": [ask("who", "Who wrote the notes?", "Ada")]}
    zoo = {"context": "Old animals sleep.", "qas": [ask("how", "How old are Blums?", "Old"), ask("no", "Who?")]}
    bob = {"context": "Letters Bob wrote, and notes about ADA.", "qas": [ask("what", "What is by Bob?", "Letters")]}
    cid = {"context": "Cid wrote notes as well.", "qas": []}
    return [{"title": "one", "paragraphs": [ada, zoo]}, {"title": "two", "paragraphs": [bob, cid]}]


def test_questions_go_astray_to_the_most_similar_text_without_their_answers(script: ModuleType) -> None:
    given = articles()
    strays = [
        [one["id"] for one in paragraph["qas"][len(before["qas"]) :]]
        for article, old in zip(script.ask_astray(given), given, strict=True)
        for paragraph, before in zip(article["paragraphs"], old["paragraphs"], strict=True)
    ]
    # Bob's text is nearer to the notes than Cid's, but names Ada; the other questions share no word with another text
    assert strays == [[], [], [], ["who-astray"]]
    assert given == articles()  # what was read stays as it was
    [stray] = script.ask_astray(given)[1]["paragraphs"][1]["qas"]
    assert stray == {"id": "who-astray", "question": "Who wrote the notes?", "answers": [], "is_impossible": True}


def test_the_most_similar_texts_come_first_and_one_s_own_never(script: ModuleType) -> None:
    texts = ["red green", "red red blue", "blue", "red green blue", "grey"]
    found = list(script.similar_texts(["red green", "blue"], np.array([0, 1]), texts))
    assert found == [[3, 1], [2, 3]]


def test_of_which_files_questions_go_astray(script: ModuleType, tmp_path: Path) -> None:
    for name in ("data", "extra"):
        write_questions(tmp_path / name, train=2, dev=2)
        content = json.dumps({"data": articles()}).replace('"id": "', f'"id": "{name}-')
        (tmp_path / name / "train.json").write_text(content, encoding="utf-8")
    extra = [tmp_path / "extra" / "train.json"]
    expected = {"none": [], "extra": ["extra-who-astray"], "all": ["data-who-astray", "extra-who-astray"]}
    for astray, strays in expected.items():
        joined = script.join_data(str(tmp_path / "data"), extra, tmp_path / astray, astray=astray, builtin=False)
        ids = load_task("squad2", data=joined).splits["train"].ids
        assert [key for key in ids if key.endswith("astray")] == strays


def test_a_file_without_questions_has_none_to_send_astray(script: ModuleType) -> None:
    article = {"title": "t", "paragraphs": [{"context": "Ada.", "qas": []}]}
    assert script.ask_astray([article]) == [article]


def test_options_reach_the_commands_that_have_them(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def note(words: list[str]) -> int:
        commands.append(words)
        return int(words[0] == "pack")  # nothing was made that could be looked at

    monkeypatch.setattr(script, "bertvision", note)
    data = write_questions(tmp_path / "squad")
    more = ["--teacher", "runs/large@2", "--teacher-share", "0.9", "--held-out", "0.1", "--schedule", "cosine"]
    words = ["--data", data, "--without-builtin", "--work", str(tmp_path / "work"), *more, "--batch", "48"]
    assert script.main(words) == 1
    tune, pack = commands
    options = parse_options(Options, tune[1:], prog="", summary="", examples=())
    assert options.data.data == str(tmp_path / "work" / "squad")
    assert (options.teacher, options.teacher_share, options.held_out) == ("runs/large@2", 0.9, 0.1)
    assert (options.tuning.schedule, options.tuning.batch, options.tuning.lr) == ("cosine", 48, 1e-3)
    assert (options.learn, options.head, options.set) == ("lora:24", "adapter_pool_skip", ("size=64",))
    assert pack[:2] == ["pack", str(options.out)]
