import json
from pathlib import Path
from typing import Any

import pytest

from bertvision.cli.commands import COMMANDS
from bertvision.cli.main import main
from bertvision.encoder.learn import CHOICES
from bertvision.tasks.load import TASKS

Capture = pytest.CaptureFixture[str]

UNCASED = {"model_type": "bert", "vocab_size": 30522}
CASED = {"model_type": "bert", "vocab_size": 28996}


def count(capsys: Capture, folder: Path, config: dict[str, Any], *words: str) -> dict[str, int]:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    assert main(["params", "--encoder", str(path), *words, "--json"]) == 0
    counted: dict[str, int] = json.loads(capsys.readouterr().out)
    return counted


@pytest.mark.parametrize(
    ("config", "learn", "trainable"),
    [
        (UNCASED, "top:0", 39_938),
        (UNCASED, "top:1", 7_124_738),
        (UNCASED, "top:3", 21_294_338),
        (UNCASED, "top:6", 42_548_738),
        (UNCASED, "houlsby:64", 2_419_202),
        (UNCASED, "houlsby:768", 28_388_354),
        (CASED, "full", 108_311_810),
        (CASED, "houlsby:64+full", 110_691_074),
    ],
)
def test_parameters_are_counted_as_the_papers_do(
    config: dict[str, Any], learn: str, trainable: int, capsys: Capture, tmp_path: Path
) -> None:
    counted = count(capsys, tmp_path, config, "--learn", learn)
    assert counted["trainable"] == trainable
    assert counted["total"] >= trainable


@pytest.mark.parametrize(("task", "outputs"), [("squad2", 2), ("sst5", 5), ("sts", 1)])
def test_the_output_of_the_task_is_counted(task: str, outputs: int, capsys: Capture, tmp_path: Path) -> None:
    counted = count(capsys, tmp_path, UNCASED, "--learn", "none", "--task", task)
    assert counted == {"total": 109_482_240 + outputs * 769, "trainable": outputs * 769}


def test_a_table_is_printed_too(capsys: Capture) -> None:
    assert main(["params", "--learn", "none"]) == 0
    output = capsys.readouterr()
    assert "trainable" in output.out
    assert "770" in output.out  # 2 x 384 weights and 2 biases
    assert output.err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "squad3"], "unknown task 'squad3'. Did you mean 'squad2'?"),
        (["--task", "own"], "unknown task 'own'"),
        (["--learn", "all"], f"--learn is 'all', one of these is expected: {CHOICES}."),
        (["--learn", "top:7"], "minilm has 6 layers only"),
        (["--encoder", "./nowhere"], "'./nowhere' is not a folder"),
    ],
)
def test_words_that_do_not_fit_get_one_clear_message(words: list[str], message: str, capsys: Capture) -> None:
    assert main(["params", *words]) == 2
    output = capsys.readouterr()
    assert (output.out, output.err.count("error:")) == ("", 1)
    assert message in output.err


@pytest.mark.parametrize("command", ["params", "tune"])
def test_help_names_every_choice_of_what_learns(command: str, capsys: Capture) -> None:
    assert main([command, "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(choice in text for choice in CHOICES.split(", "))
    assert COMMANDS[command].summary in text


def test_every_task_can_be_counted(capsys: Capture, tmp_path: Path) -> None:
    small = UNCASED | {"num_hidden_layers": 1, "hidden_size": 48, "intermediate_size": 8}
    for name in TASKS:
        assert (
            count(capsys, tmp_path, small, "--task", name, "--learn", "none")["trainable"] == TASKS[name].outputs * 49
        )
