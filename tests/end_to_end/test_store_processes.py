"""Two processes that really are two write the store of one."""

import json
from pathlib import Path

import pytest

from bertvision.cli.main import main
from bertvision.runs.fitting.extract import extract_states
from bertvision.store.codec import Keep
from bertvision.store.manifest import read_manifest
from conftest import ROOT
from folders import differences
from launch import launch, run_python, what_two_saw
from tiny_run import save_tiny_encoder, write_questions
from tiny_store import small_shards
from two_writers import interrupt, request_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six shards of train, two of dev."""
    return write_questions(tmp_path_factory.mktemp("data"), train=22, dev=6)


@pytest.fixture(scope="module")
def together(encoder: str, data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two processes left their stores, one of which a single process had begun."""
    out = tmp_path_factory.mktemp("together")
    with pytest.MonkeyPatch.context() as patch:
        small_shards(patch)
        interrupt(request_of(encoder, data), out / "begun-by-one", 3)
    assert len(list((out / "begun-by-one" / "train").glob("0*.safetensors"))) == 3
    done = launch(str(ROOT / "tests" / "two_writers.py"), encoder, data, str(out))
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def alone(encoder: str, data: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which one process left its stores."""
    out = tmp_path_factory.mktemp("alone")
    done = run_python(str(ROOT / "tests" / "two_writers.py"), encoder, data, str(out))
    assert done.returncode == 0, done.stderr
    return out


def test_there_are_two_and_each_computes_every_other_shard(together: Path) -> None:
    first, second = what_two_saw(together)
    assert (first["processes"], second["processes"]) == (2, 2)
    train, dev = [*range(4), *range(8, 12), *range(16, 20)], [0, 1, 2, 3]
    assert (sorted(first["windows"][:12]), sorted(first["windows"][12:])) == (train, dev)
    assert sorted(second["windows"][:10]) == [4, 5, 6, 7, 12, 13, 14, 15, 20, 21]
    assert first["shown"] == [4, 8, 12, 4]  # of its own share
    assert second["shown"] == []
    assert first["manifests"] == second["manifests"] == {"train": 6, "dev": 2}


@pytest.mark.parametrize("keep", ["fp16", "int8"])
def test_two_processes_write_the_store_of_one_to_the_last_bit(keep: Keep, together: Path, alone: Path) -> None:
    assert differences(together / keep, alone / keep) == []


def test_two_processes_go_on_where_one_was_stopped(together: Path, alone: Path) -> None:
    assert differences(together / "begun-by-one", alone / "fp16") == []


def test_one_process_goes_on_where_two_were_stopped(encoder: str, data: str, together: Path, alone: Path) -> None:
    store = together / "begun-by-two"
    assert list((store / "train").glob("0*.safetensors"))
    assert not (store / "train" / "manifest.json").exists() or not (store / "dev" / "manifest.json").exists()
    extract_states(request_of(encoder, data), store)
    assert differences(store, alone / "fp16") == []


def test_an_error_of_one_process_ends_both(encoder: str, data: str, together: Path, alone: Path) -> None:
    for process in what_two_saw(together):
        assert "000001.safetensors cannot be written: No space left on device. Whole shards are kept" in process["full"]
        assert "fp16/train holds another store: keep is fp16, bf16 is asked for" in process["other"]
    shards = {path.stem for path in (together / "full" / "train").glob("*.safetensors")}
    assert shards == {"000000", "000002", "000004"}
    extract_states(request_of(encoder, data), together / "full")
    assert differences(together / "full", alone / "fp16") == []


def test_the_command_prints_one_json_however_many_processes_there_are(
    encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()  # shards of the usual size
    data = write_questions(tmp_path / "data", train=1200, dev=4)
    words = ["--data", data, "--encoder", encoder, "--length", "64", "--stride", "16", "--question", "24", "--json"]
    done = launch("-m", "bertvision", "extract", "squad2", *words, "--store", str(tmp_path / "two"))
    assert done.returncode == 0, done.stderr
    assert main(["extract", "squad2", *words, "--device", "cpu", "--store", str(tmp_path / "one")]) == 0
    assert json.loads(done.stdout) == json.loads(capsys.readouterr().out)
    assert "step 1,024 of 1,024" in done.stderr  # the main process's share: eight of ten shards
    assert len(read_manifest(tmp_path / "two" / "train").shards) == 10
    assert differences(tmp_path / "two", tmp_path / "one") == []
