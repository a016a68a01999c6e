"""`bertvision fit TASK,TASK` as a user runs it."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from tiny_run import save_tiny_encoder

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


def command(tasks: str, encoder: str, out: Path, *more: str) -> list[str]:
    return ["fit", tasks, "--encoder", encoder, "--length", "64", "--device", "cpu", "--out", str(out), *more]


def test_several_tasks_have_a_leaderboard_each(capsys: Capture, encoder: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    heads = ["--heads", "last_layer,layer_mix"]
    assert main(command("sst2, sts,cfimdb", encoder, out, *heads, "--json")) == 0
    output = capsys.readouterr()
    boards = json.loads(output.out)
    assert list(boards) == ["sst2", "sts", "cfimdb"]
    for task, board in boards.items():
        assert board == json.loads((out / task / "leaderboard.json").read_text(encoding="utf-8"))
    assert [row["head"] for row in boards["sst2"]] == [row["head"] for row in boards["cfimdb"]]  # the same built-in set
    assert "texts or pairs of 3 tasks" in output.err
    assert "note: sts: the small built-in set is used" in output.err
    assert main(command("sst2,sts,cfimdb", encoder, out, *heads, "--resume")) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert [shown.count(f"{task}: 2 heads, best first") for task in boards] == [1, 1, 1]


def test_each_task_is_divided_as_the_encoder_s_run_divided_it(capsys: Capture, encoder: str, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    tune = ["tune", "sst2", "--learn", "none", "--held-out", "0.2", "--seed", "3", "--fraction", "0.5"]
    assert main([*tune, "--encoder", encoder, "--length", "64", "--device", "cpu", "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(command("sst2,sst5", str(run), out, "--heads", "last_layer")) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "sst2: examples are divided as" in told
    assert "sst5: examples are divided as" not in told
    assert "may flatter" not in told
    asked = [
        json.loads((out / task / "config.json").read_text(encoding="utf-8"))["request"] for task in ("sst2", "sst5")
    ]
    assert [(one["held_out"], one["seed"], one["heads"][0]["fraction"]) for one in asked] == [
        (0.2, 3, 0.5),
        (0.1, 0, 1.0),
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sst2,squad2", "--heads", "layer_mix", "--stride", "16", "--question", "24"], "squad2: it asks for spans"),
        (["sst2,sst3"], "unknown task 'sst3'"),
        (["sst2,sts,sst2"], "sst2 is named 2 times"),
        (["sst2,sts", "--snapshots", "all"], "--snapshots takes one task, 2 were named"),
        (["sst2,sts", "--from", "store:x", "--heads", "layer_mix"], "a store holds the states of one task"),
    ],
)
def test_what_cannot_be_is_an_error_and_nothing_is_written(
    capsys: Capture, encoder: str, words: list[str], message: str, tmp_path: Path
) -> None:
    assert main(command(words[0], encoder, tmp_path / "out", *words[1:])) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in " ".join(output.err.split())
    assert not (tmp_path / "out").exists()
