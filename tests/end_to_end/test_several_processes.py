"""Two processes that really are two learn what one does."""

import json
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.tuning.tune import tune
from close import FLOAT32
from conftest import ROOT
from launch import launch, what_two_saw
from tiny_run import losses, same_state, save_tiny_encoder, tiny_request, words, write_questions
from two_processes import plain_request, taught_request

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """33 questions: four batches of 8, and one of a single window, which leaves one of two processes without any."""
    return write_questions(tmp_path_factory.mktemp("data"), train=33)


@pytest.fixture(scope="module")
def together(encoder: str, data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two processes left their runs."""
    out = tmp_path_factory.mktemp("together")
    done = launch(str(ROOT / "tests" / "two_processes.py"), encoder, data, str(out))
    assert done.returncode == 0, done.stderr
    return out


def test_there_are_two_and_one_of_them_speaks(together: Path) -> None:
    first, second = what_two_saw(together)
    assert (first["processes"], second["processes"]) == (2, 2)
    assert (first["main"], second["main"]) == (True, False)
    assert first["metrics"] == second["metrics"] != {}
    assert first["shown"][-1] == 15
    assert second["shown"] == []
    assert json.loads((together / "plain" / "result.json").read_text(encoding="utf-8"))["processes"] == 2


def test_two_processes_have_the_loss_curve_of_one(together: Path, encoder: str, data: str, tmp_path: Path) -> None:
    alone = tune(plain_request(encoder, data), tmp_path / "alone")
    assert alone.processes == 1
    curve = losses(together / "plain")
    assert len(curve) == 7
    assert curve == pytest.approx(losses(alone.run), abs=FLOAT32)
    assert len(set(curve)) == 7  # it learns


def test_two_processes_learn_from_a_teacher_what_one_does(
    together: Path, encoder: str, data: str, tmp_path: Path
) -> None:
    alone = tune(taught_request(encoder, data, together / "plain"), tmp_path / "alone")
    curve = losses(together / "taught")
    assert curve == pytest.approx(losses(alone.run), abs=FLOAT32)
    assert curve != losses(together / "plain")


def test_a_run_of_two_processes_is_resumed_to_the_same_end(together: Path) -> None:
    assert same_state(together / "resumed", together / "whole")
    assert losses(together / "whole") != losses(together / "plain")  # dropout was on


def test_an_error_of_the_main_process_ends_all_of_them(together: Path) -> None:
    for process in what_two_saw(together):
        assert process["again"].endswith("plain holds a run already. It is finished. Use another --out.")
        assert "Snapshots made before are kept" in process["diverged"]


def test_a_run_of_two_processes_does_not_go_on_in_one(encoder: str, data: str, together: Path) -> None:
    request = plain_request(encoder, data)
    (together / "plain" / "result.json").rename(together / "plain" / "result.away")
    try:
        checkpoint = together / "plain" / "checkpoint-5"
        checkpoint.mkdir()
        state = {"format": 1, "step": 5, "best": None, "stale": 0, "losses": [[0, 0], [0, 0]]}
        (checkpoint / "state.json").write_text(json.dumps(state), encoding="utf-8")
        (checkpoint / "tensors.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
        with pytest.raises(BertVisionError, match="checkpoint-5 is of 2 processes; 1 are expected"):
            tune(request, together / "plain", resume=True)
    finally:
        (checkpoint / "state.json").unlink()
        (checkpoint / "tensors.safetensors").unlink()
        checkpoint.rmdir()
        (together / "plain" / "result.away").rename(together / "plain" / "result.json")


def test_the_command_prints_one_json_however_many_processes_there_are(encoder: str, data: str, tmp_path: Path) -> None:
    request = tiny_request("squad2", data, encoder)
    done = launch("-m", "bertvision", *words(request, tmp_path / "run", "--json"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["processes"] == 2
    ours = [line for line in done.stderr.splitlines() if line.startswith(("step", "note"))]
    assert len(ours) == len(set(ours))
    assert "Warning" not in done.stderr.replace("torch/distributed/run.py", "")
