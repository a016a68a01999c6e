"""`bertvision tune` as a user runs it."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bertvision.cli.main import main
from bertvision.heads import load_head
from bertvision.runs.request import TuneRequest
from bertvision.training.options import RECIPES
from folders import everything
from tiny_run import read_lines, save_tiny_encoder, tiny_request, words, write_labels, write_questions

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture(scope="module")
def squad(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_questions(tmp_path_factory.mktemp("squad"))


@pytest.fixture
def asked(squad: str, encoder: str) -> TuneRequest:
    return tiny_request("squad2", squad, encoder)


def fails(capsys: Capture, *words: str) -> str:
    """The message of a command that is to fail with exit code 2, one error and nothing on standard output."""
    assert main(list(words)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("error:") == 1
    assert "Traceback" not in output.err
    return output.err.rpartition("error: ")[2]


def test_json_alone_goes_to_standard_output_and_progress_to_standard_error(
    capsys: Capture, encoder: str, squad: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    request = tiny_request("squad2", squad, encoder, snapshots=(0.4,), learn="lora:2")
    assert main(words(request, run, "--json")) == 0
    output = capsys.readouterr()
    printed = json.loads(output.out)
    assert printed["run"] == str(run)
    assert printed["snapshots"] == [f"{run}@0.4", f"{run}@1"]
    assert (printed["steps"], printed["processes"]) == (5, 1)
    assert printed["trainable"] < printed["total"]
    assert printed["metrics"]["total"] == 12
    lines = output.err.splitlines()
    steps = [line.partition("  ")[0] for line in lines if line.startswith("step")]
    assert steps == ["step 1 of 5", *["step 2 of 5"] * 3, *["step 5 of 5"] * 3]
    [kept] = [line for line in lines if "snapshot 0.4  " in line]
    assert [part.split(" ")[0] for part in kept.split("  ")[1:]] == [
        "snapshot",
        "loss",
        "f1",
        "exact",
        "f1_fitted",
        "best_f1",
    ]
    assert any(line.endswith("scoring snapshot 0.4 …") for line in lines)
    assert all(line.startswith(("step", "note: squad2")) for line in lines)  # no bars and warnings of libraries


def test_a_table_says_what_learnt_and_counts_are_whole_numbers(
    capsys: Capture, encoder: str, squad: str, tmp_path: Path
) -> None:
    assert main(words(tiny_request("squad2", squad, encoder, learn="none"), tmp_path / "run")) == 0
    table = capsys.readouterr().out
    assert "34 of 5,890 parameters learned (0.58%)" in " ".join(table.split())
    cells = {row.split("│")[1].strip(): row.split("│")[2].strip() for row in table.splitlines() if row.startswith("│")}
    assert (cells["total"], cells["missing"]) == ("12", "0")


def test_what_was_asked_for_on_the_command_line_is_what_is_asked_for(
    capsys: Capture, encoder: str, squad: str, tmp_path: Path
) -> None:
    more = ["--recipe", "silva", "--epochs", "1", "--clip", "0.5", "--tracker", "nothing"]
    command = ["tune", "squad2", "--data", squad, "--encoder", encoder, "--out", str(tmp_path / "run"), *more]
    assert "unknown tracker 'nothing'" in fails(capsys, *command)
    sizes = ["--length", "64", "--stride", "16", "--question", "24"]
    assert main([*command[:-2], *sizes, "--held-out", "0.1", "--device", "cpu"]) == 0
    asked = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["request"]
    silva = RECIPES["silva"]
    given = {"epochs": 1.0, "clip": 0.5}  # the first is the usual value, but the recipe's is another
    assert silva.epochs == 2
    assert asked["options"] == {name: getattr(silva, name) for name in asked["options"]} | given
    assert asked["windows"] == {"length": 64, "stride": 16, "question": 24}
    assert (asked["held_out"], asked["device"], asked["task"]) == (0.1, "cpu", "squad2")


def test_a_head_and_its_options_are_asked_for_on_the_command_line(
    capsys: Capture, encoder: str, squad: str, tmp_path: Path
) -> None:
    command = words(tiny_request("squad2", squad, encoder, learn="none"), tmp_path / "run")
    command += ["--head", "adapter_pool", "--set", "size=4", "--set", "skip=true", "--set", "layers=0..1"]
    assert main([*command, "--json"]) == 0
    # an adapter from 16 to 4, and two outputs of two adapted layers and the last of them
    assert json.loads(capsys.readouterr().out)["trainable"] == 16 * 4 + 4 + 2 * (2 * 4 + 16) + 2
    asked = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))["request"]
    options = {"size": "4", "skip": "true", "layers": "0..1"}
    assert (asked["head"], asked["head_options"], asked["pooled"]) == ("adapter_pool", options, False)
    head = load_head(tmp_path / "run" / "snapshots" / "1")
    assert (head.name, head.reads) == ("adapter_pool", (0, 1))
    assert head.options.items() >= {"size": 4, "skip": True, "shared": True}.items()
    changed = [*command, "--resume", "--set", "size=8"]
    assert "something else: head_options.size was 4, is 8. Ask for the same" in fails(capsys, *changed)
    assert "head_options.mix was None, is true" in fails(capsys, *command, "--resume", "--set", "mix=true")
    assert main([*command, "--resume"]) == 0


def test_the_pooled_vector_is_asked_for_on_the_command_line(capsys: Capture, encoder: str, tmp_path: Path) -> None:
    request = tiny_request("sst2", write_labels(tmp_path / "data"), encoder, head="layer_mix", pooled=True)
    assert main(words(request, tmp_path / "run", "--json")) == 0
    # 2-layer BERT with its pooler; a weight for each of four layers and a scale, and two outputs
    printed = json.loads(capsys.readouterr().out)
    assert printed["trainable"] == printed["total"] == 5_856 + (16 * 16 + 16) + (4 + 1) + (2 * 16 + 2)
    snapshot = json.loads((tmp_path / "run" / "snapshots" / "1" / "snapshot.json").read_text(encoding="utf-8"))
    assert (snapshot["format"], snapshot["head"], snapshot["pooled"]) == (2, "layer_mix", True)


def test_the_run_has_a_name_if_none_is_given(
    capsys: Capture, encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = write_labels(tmp_path / "data")
    command = words(tiny_request("sst2", data, encoder, learn="top:1"), tmp_path)
    at = command.index("--out")
    assert main([*command[:at], *command[at + 2 :]]) == 0
    assert (tmp_path / "runs" / "sst2-top1" / "result.json").is_file()
    assert "runs/sst2-top1" in capsys.readouterr().out


def test_a_run_goes_on_only_when_asked_and_a_finished_one_says_so(
    capsys: Capture, encoder: str, squad: str, tmp_path: Path
) -> None:
    command = words(tiny_request("squad2", squad, encoder), tmp_path / "run")
    assert main([*command, "--json"]) == 0
    first = capsys.readouterr().out
    before = everything(tmp_path / "run")
    assert "holds a run already. It is finished. Use another --out" in fails(capsys, *command)
    assert "options.seed was 0, is 1" in fails(capsys, *command, "--seed", "1", "--resume")
    assert main([*command, "--resume", "--json"]) == 0
    output = capsys.readouterr()
    assert output.out == first
    assert output.err == f"note: {tmp_path / 'run'} is finished; there was nothing left to do.\n"
    assert everything(tmp_path / "run") == before


def test_a_loss_that_is_not_a_number_ends_with_code_2_and_keeps_snapshots(
    capsys: Capture, encoder: str, squad: str, tmp_path: Path
) -> None:
    request = tiny_request("squad2", squad, encoder, epochs=5, lr=1e30, head_lr=1e30, warmup=0.9, snapshots=(0.2,))
    message = fails(capsys, *words(request, tmp_path / "run"))
    assert "Snapshots made before are kept; use a smaller --lr or more --warmup" in message
    assert [path.name for path in (tmp_path / "run" / "snapshots").iterdir()] == ["0.2"]
    assert read_lines(tmp_path / "run")[-1]["snapshot"] == 0.2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--snapshots", "0.1,x"], "--snapshots is '0.1,x', numbers such as 0.1,0.3,1 are expected."),
        (["--snapshots", "0"], "--snapshots has 0; more than 0 and at most the 1 epochs of the run is expected."),
        (["--snapshots=-1,1"], "--snapshots has -1;"),
        (["--snapshots", "1,3"], "--snapshots has 3;"),
        (["--snapshots", "nan"], "--snapshots has nan;"),
        (["--batch", "0", "--warmup", "1"], "--batch is 0, at least 1 is expected; --warmup is 1, at least 0 and less"),
        (["--device", "gpu"], "'gpu' is not one of auto, cpu, cuda"),
        (["--recipe", "mine"], "'mine' is not one of bertvision, hulburd, silva, minbert"),
        (["--held-out", "1"], "--held-out is 1, at least 0 and less than 1 is expected"),
        (
            ["--fraction", "0.01"],
            "of them out. Use more of them, or another --held-out.",
        ),
        (["--class-weights"], "--class-weights is for tasks with one label per text; squad2 asks for spans."),
        (["--save-every", "0"], "--save-every is 0, at least 1 is expected."),
        (["--head", "dot_atention"], "unknown head 'dot_atention'. Did you mean 'dot_attention'?"),
        (["--head", "adapter_pool", "--set", "sise=4"], "of head 'adapter_pool' 'sise'. Did you mean 'size'?"),
        (
            ["--head", "adapter_pool", "--set", "size=many"],
            "head 'adapter_pool': option size is 'many', a whole number at least 1 is expected (default: 386).",
        ),
        (["--set", "dropout=1"], "option dropout is '1', a number at least 0 and less than 1 is expected"),
        (["--set", "size"], "--set is 'size', a name and a value such as size=64 are expected."),
        (["--head", "layer_mix", "--pooled"], "--pooled is for tasks with labels, tags or scores, not for squad2."),
        (["--length", "65"], "window length 65 exceeds the 64 tokens this encoder takes. Use --length 64 or less."),
    ],
)
def test_words_that_do_not_fit_get_one_clear_message_and_leave_nothing(
    more: list[str], message: str, capsys: Capture, asked: TuneRequest, tmp_path: Path
) -> None:
    command = words(asked, tmp_path / "run")
    assert message in fails(capsys, *command, *more)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_not_replaced_in_silence(
    capsys: Capture, encoder: str, squad: str, tmp_path: Path
) -> None:
    command = words(tiny_request("squad2", squad, encoder, device="cuda"), tmp_path / "run")
    assert "--device cuda was asked for, but there is no GPU here. Use --device cpu." in fails(capsys, *command)


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="TensorBoard is installed")
def test_a_tracker_that_is_not_installed_is_an_error(capsys: Capture, encoder: str, squad: str, tmp_path: Path) -> None:
    command = words(tiny_request("squad2", squad, encoder), tmp_path / "run", "--tracker", "tensorboard")
    assert "Install it: pip install tensorboard" in fails(capsys, *command)


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="TensorBoard is not installed")
def test_tensorboard_is_told(capsys: Capture, encoder: str, squad: str, tmp_path: Path) -> None:
    command = words(tiny_request("squad2", squad, encoder), tmp_path / "run", "--tracker", "tensorboard")
    assert main(command) == 0
    capsys.readouterr()
    assert list((tmp_path / "run").rglob("events.out.tfevents.*"))


@pytest.mark.parametrize("command", ["tune", "params", "ls"])
def test_help_opens_without_importing_torch(command: str) -> None:
    words = f"main(['{command}', '--help']); sys.exit('torch' in sys.modules)"
    code = f"import sys; from bertvision.cli.main import main; {words}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
