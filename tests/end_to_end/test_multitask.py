"""`bertvision multitask` as a user runs it."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from bertvision.runs.tuning.multitask import multitask
from close import FLOAT32
from launch import launch
from tiny_run import losses, save_tiny_encoder, tiny_multitask, write_several

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """33 windows of each task: the last batch of a task leaves one of two processes without any."""
    return write_several(tmp_path_factory.mktemp("data"), train=33)


def command(encoder: str, data: str, out: Path, *more: str) -> list[str]:
    shape = ["--length", "64", "--stride", "16", "--question", "24", "--device", "cpu", "--batch", "8", "--warmup", "0"]
    return ["multitask", "--encoder", encoder, "--data", data, "--out", str(out), *shape, *more]


def test_every_option_reaches_the_run(capsys: Capture, encoder: str, data: str, tmp_path: Path) -> None:
    more = ["--tasks", "sst2, sts,squad2", "--heads", "sst2=layer_mix,squad2=last_layer", "--set", "sts.size=8"]
    more += ["--input", "qa", "--ask", "sst2=is it good ?", "--order", "temperature", "--temperature", "3"]
    more += ["--cap", "sts=9", "--balance", "--learn", "lora:2", "--json"]
    assert main(command(encoder, data, tmp_path / "run", *more)) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed["metrics"]) == ["sst2", "sts", "squad2"]
    assert printed["snapshots"] == [f"{tmp_path / 'run'}@1"]
    asked = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["request"]
    assert asked["task"] == "sst2,sts,squad2"
    assert asked["heads_of"] == {"sst2": "layer_mix", "squad2": "last_layer"}
    assert asked["options_of"] == {"sts": {"size": "8"}}
    assert asked["questions"] == {"sst2": "is it good ?"}
    assert (asked["input"], asked["order"], asked["temperature"]) == ("qa", "temperature", 3.0)
    assert (asked["caps"], asked["balance"], asked["learn"]) == ({"sts": 9}, True, "lora:2")


def test_a_report_shows_labels_before_and_after_balancing(
    capsys: Capture, encoder: str, data: str, tmp_path: Path
) -> None:
    assert main(command(encoder, data, tmp_path / "run", "--tasks", "sst2,sts,squad2", "--balance")) == 0
    assert main(["report", f"{tmp_path}/run", "--out", f"{tmp_path}/report"]) == 0
    capsys.readouterr()
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    for title in (
        "Labels of sst2, before and after balancing",
        "Labels of sts, before and after balancing",
        "What is taken for what in sst2",
        "Predicted against true scores of sts",
    ):
        assert f">{title}<" in page
    assert "Labels of squad2" not in page


def test_inputs_stand_in_one_table_row_by_row(capsys: Capture, encoder: str, data: str, tmp_path: Path) -> None:
    more = ["--tasks", "sst2,quora", "--input", "qa,apart", "--set", "size=4", "--fraction", "0.5"]
    assert main(command(encoder, data, tmp_path / "runs", *more)) == 0
    table = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:4]] for line in table.splitlines() if line.startswith("│")]
    expected = [[task, name, "dense_stack"] for task in ("sst2", "quora") for name in ("apart", "qa")]
    assert rows == expected
    assert "held_out" not in table
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"apart", "qa"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "together"], "unknown input 'together'"),
        (["--input", "qa,qa"], "--input is 'qa,qa', some of apart, pair, qa, once each, are expected"),
        (["--cap", "sst2=many"], "--cap is 'sst2=many', whole numbers such as quora=4000 are expected"),
        (["--cap", "4000"], "--cap is '4000', a name and a value such as quora=4000 are expected"),
        (["--heads", "layer_mix"], "--heads is 'layer_mix', a name and a value such as sst5=layer_mix are expected"),
        (["--ask", "sts=Alike?"], "--ask names sts, which is none of the tasks sst2"),
        (["--order", "random"], "'random' is not one of sequence, round-robin, proportional, temperature"),
    ],
)
def test_words_that_mean_nothing_are_an_error(
    capsys: Capture, encoder: str, words: list[str], message: str, tmp_path: Path
) -> None:
    assert main(command(encoder, "builtin", tmp_path / "run", "--tasks", "sst2", *words)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in " ".join(output.err.split())
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_two_processes_learn_several_tasks_as_one_does(encoder: str, data: str, tmp_path: Path) -> None:
    request = tiny_multitask(
        "sst2,sts",
        data,
        encoder,
        order="round-robin",
        held_out=0.0,
        epochs=2,
        lr=1e-3,
        head_lr=1e-3,
        snapshots=(0.5, 1, 1.5),
        options_of={"sst2": {"dropout": "0"}, "sts": {"dropout": "0"}},
    )
    alone = multitask(request, tmp_path / "alone")
    more = ["--tasks", "sst2,sts", "--order", "round-robin", "--held-out", "0", "--epochs", "2", "--lr", "1e-3"]
    more += ["--head-lr", "1e-3", "--snapshots", "0.5,1,1.5", "--set", "dropout=0", "--json"]
    done = launch("-m", "bertvision", *command(encoder, data, tmp_path / "two", *more))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["processes"] == 2
    assert losses(tmp_path / "two") == pytest.approx(losses(alone.run), abs=FLOAT32)
    assert len(set(losses(alone.run))) == 5  # of the first step, and until each snapshot
    assert "Warning" not in done.stderr.replace("torch/distributed/run.py", "")
