import json
from pathlib import Path
from typing import Any

import pytest

from bertvision.cli.commands import COMMANDS
from bertvision.cli.ls import BERT_LARGE, reference_parameters
from bertvision.cli.main import main
from bertvision.encoder.learn import CHOICES
from bertvision.heads import HEADS
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


def count_head(capsys: Capture, *words: str) -> int:
    assert main(["params", "--head", *words, "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    counted = json.loads(output.out)
    assert counted.keys() == {"parameters"}
    return int(counted["parameters"])


LARGE = ["--width", "1024", "--layers", "25"]
SMALL = ["--width", "16", "--layers", "3"]


@pytest.mark.parametrize(
    ("words", "parameters"),
    [
        (["last_layer", *LARGE], 2 * 1024 + 2),
        (["last_layer", *LARGE, "--outputs", "5"], 5 * 1024 + 5),
        (["layer_mix", *LARGE], 25 + 1 + 2 * 1024 + 2),
        (["layer_mix", *LARGE, "--set", "layers=0..6"], 7 + 1 + 2 * 1024 + 2),
        (["adapter_pool", *LARGE, "--set", "size=64"], 1024 * 64 + 64 + 2 * 25 * 64 + 2),
        (["adapter_pool", *LARGE, "--set", "size=64", "--set", "skip=true"], 1024 * 64 + 64 + 2 * (25 * 64 + 1024) + 2),
        # 3 layers are the first channels; each filter is 3 places wide; of 16 places every second is left, twice
        (
            ["conv", *SMALL, "--set", "filters=4,5", "--set", "kernel=3", "--set", "stride=2"],
            (3 * 4 * 3 + 4) + (4 * 5 * 3 + 5) + 2 * (5 * 4) + 2,
        ),
    ],
)
def test_a_head_is_counted_alone(words: list[str], parameters: int, capsys: Capture) -> None:
    assert count_head(capsys, *words) == parameters


def test_running_statistics_are_counted_and_told_apart(capsys: Capture) -> None:
    words = ["xception", *SMALL, "--set", "stem=4", "--set", "entry=8,8"]
    learnt = [
        *(3 * 4 * 3, 2 * 4),  # the stem, and its scale and shift
        *(4 * 3 + 4 * 8, 2 * 8, 8 * 3 + 8 * 8, 2 * 8),  # two separable convolutions
        *(4 * 8, 2 * 8),  # what goes around them
        8 * 2 + 2,
    ]
    running = 2 * (4 + 8 + 8 + 8)
    assert count_head(capsys, *words) == sum(learnt) + running
    assert main(["params", "--head", *words]) == 0
    table = " ".join(capsys.readouterr().out.split())
    assert "xception for 3 layers of width 16, 2 outputs" in table
    assert f"│ parameters │ {sum(learnt) + running} │" in table
    assert f"│ of these learned by gradient │ {sum(learnt)} │" in table


def test_a_head_is_counted_with_its_encoder(capsys: Capture, tmp_path: Path) -> None:
    counted = count(capsys, tmp_path, UNCASED, "--learn", "none", "--head", "layer_mix")
    assert counted == {"total": 109_482_240 + 13 + 1 + 2 * 769, "trainable": 13 + 1 + 2 * 769}
    words = ["--head", "adapter_pool", "--set", "size=4", "--set", "skip=true", "--task", "sst5"]
    adapter = 768 * 4 + 4 + 5 * (13 * 4 + 768) + 5
    assert count(capsys, tmp_path, UNCASED, "--learn", "none", *words)["trainable"] == adapter


def test_the_share_of_heads_is_that_of_the_encoder_which_bert_large_is(capsys: Capture, tmp_path: Path) -> None:
    large = UNCASED | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
    counted = count(capsys, tmp_path, large | {"intermediate_size": 4096}, "--learn", "none")
    assert counted["total"] == BERT_LARGE + 2050


def test_every_head_can_be_counted(capsys: Capture) -> None:
    for name in HEADS:
        assert count_head(capsys, name, *LARGE) == reference_parameters(name)


def test_a_table_is_printed_too(capsys: Capture) -> None:
    assert main(["params", "--learn", "none"]) == 0
    output = capsys.readouterr()
    assert "trainable" in output.out
    assert "770" in output.out  # 2 x 384 weights and 2 biases
    assert "of these in the head" in output.out
    assert output.err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "squad3"], "unknown task 'squad3'. Did you mean 'squad2'?"),
        (["--task", "own"], "unknown task 'own'"),
        (["--learn", "all"], f"--learn is 'all', one of these is expected: {CHOICES}."),
        (["--learn", "top:7"], "minilm has 6 layers only"),
        (["--encoder", "./nowhere"], "'./nowhere' is not a folder"),
        (["--head", "layermix"], "unknown head 'layermix'. Did you mean 'layer_mix'?"),
        (["--head", "layer_mix", *LARGE, "--set", "gat=x"], "of head 'layer_mix' 'gat'. Did you mean 'gate'?"),
        (["--head", "layer_mix", "--set", "gate=x"], "option gate is 'x', one of softmax, sparsemax is expected"),
        (["--set", "size"], "--set is 'size', a name and a value such as size=64 are expected."),
        (LARGE, "a head is counted alone with --head, --width and --layers, all three."),
        (["--head", "layer_mix", "--width", "16"], "a head is counted alone with --head, --width and --layers"),
        (["--head", "layer_mix", "--layers", "3"], "a head is counted alone with --head, --width and --layers"),
        (["--head", "layer_mix", *LARGE, "--learn", "full"], "--learn says nothing when a head is counted alone"),
        (["--head", "layer_mix", *LARGE, "--task", "sst2"], "--task says nothing when a head is counted alone"),
        (["--head", "layer_mix", *LARGE, "--outputs", "0"], "--width is 1024, --layers 25 and --outputs 0, at least 1"),
        (["--head", "layer_mix", "--outputs", "3"], "--outputs is for a head that is counted alone; here --task says"),
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
