"""What can go wrong with a store: nothing is lost, nothing is silently wrong, and a message says what to do."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bertvision.cli.main import main
from bertvision.errors import BertVisionError
from bertvision.runs.fitting.extract import extract_states
from conftest import ROOT
from folders import differences, everything
from launch import ENVIRONMENT, run_python
from tiny_run import save_tiny_encoder, write_questions
from tiny_store import Count, Source, cut_short, small_shards, write_store
from two_writers import request_of

Capture = pytest.CaptureFixture[str]
WINDOWS = ["--length", "64", "--stride", "16", "--question", "24", "--device", "cpu"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_questions(tmp_path_factory.mktemp("data"), train=22, dev=6)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def message_of(capsys: Capture, words: list[str]) -> str:
    capsys.readouterr()
    assert main(words) == 2
    output = capsys.readouterr()
    assert "Traceback" not in output.err
    return " ".join(output.err.rpartition("error: ")[2].split())


@pytest.mark.slow
def test_a_writer_that_is_killed_at_any_write_is_made_good_to_the_last_bit(tmp_path: Path) -> None:
    done = run_python(str(ROOT / "tests" / "killed_writers.py"), str(tmp_path))
    assert done.returncode == 0, done.stderr
    for moments in json.loads(done.stdout).values():
        assert {moment["shards"] for moment in moments} == {0, 1, 2, 3}
        assert len(moments) >= 15
        assert all(moment["same"] for moment in moments)
        assert False not in [moment["readable"] for moment in moments]  # not finished, or whole


def count_shards(store: Path) -> int:
    """How many there are, while they are written: `os.walk` passes over a folder that is gone when it is listed."""
    return sum(name.endswith(".safetensors") for _, _, names in os.walk(store) for name in names)


@pytest.mark.slow
def test_a_command_that_is_killed_at_several_moments_is_made_good_to_the_last_bit(encoder: str, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data", train=6000, dev=4)
    words = ["extract", "squad2", "--data", data, "--encoder", encoder, *WINDOWS, "--keep", "int8", "--store"]
    store, killed = tmp_path / "store", 0
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-m", "bertvision", *words, str(store)], env=ENVIRONMENT, stderr=subprocess.DEVNULL
        )
        before = count_shards(store)
        while count_shards(store) == before and process.poll() is None:
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.1))  # noqa: S311 - any moment will do
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed
    for folder in (store, tmp_path / "whole"):
        done = run_python("-m", "bertvision", *words, str(folder))
        assert done.returncode == 0, done.stderr
    assert differences(store, tmp_path / "whole") == []


def test_a_disk_that_is_too_small_is_seen_before_anything_is_written(
    capsys: Capture, small_disk: Path, encoder: str, tmp_path: Path
) -> None:
    data = write_questions(tmp_path / "data", train=200, dev=4)
    words = ["extract", "squad2", "--data", data, "--encoder", encoder, *WINDOWS, "--store", str(small_disk / "store")]
    message = message_of(capsys, words)
    assert f"KB; 205 KB are free on the disk of {small_disk}. Make room, or use another disk, --keep int8 (" in message
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_becomes_full_in_the_middle_loses_no_whole_shard(
    small_disk: Path, encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_shards(monkeypatch)
    filler = small_disk / "filler"

    def fill(*_now: object, **_more: object) -> None:
        """Somebody else writes, too."""
        with suppress(OSError), filler.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    with pytest.raises(
        BertVisionError, match=r"000001\.safetensors cannot be written: .*No space left .*Whole shards a"
    ):
        extract_states(request_of(encoder, data), small_disk / "store", show=fill)
    assert sorted(path.name for path in (small_disk / "store" / "train").iterdir()) == [
        "000000.safetensors",
        "content.json",
    ]
    with pytest.raises(BertVisionError, match=r"would take .* KB more; .* are free on the disk of .*store\. Make room"):
        extract_states(request_of(encoder, data), small_disk / "store")
    filler.unlink()
    count = Count(monkeypatch)
    extract_states(request_of(encoder, data), small_disk / "store")
    assert 0 not in count.windows[:18]  # the first shard was not computed again
    extract_states(request_of(encoder, data), tmp_path / "whole")
    assert differences(small_disk / "store", tmp_path / "whole") == []


def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)
    lengths = (5, 2, 7, 1, 3000, 3, 6, 4, 2)  # the second shard is the largest
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(
            BertVisionError, match=r"000001\.safetensors cannot be written: .*File too large.*make room"
        ):
            write_store(tmp_path / "store", Source(*lengths))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(everything(tmp_path / "store")) == ["000000.safetensors", "content.json"]
    rest = Source(*lengths)
    write_store(tmp_path / "store", rest)
    assert rest.asked == [[4, 5, 6, 7], [8]]
    write_store(tmp_path / "whole", Source(*lengths))
    assert differences(tmp_path / "store", tmp_path / "whole") == []


@pytest.fixture
def fit(encoder: str, data: str, tmp_path: Path) -> list[str]:
    """`bertvision fit` but for its store and its folder."""
    extract_states(request_of(encoder, data), tmp_path / "store")
    words = ["--heads", "last_layer", "--epochs", "1", "--held-out", "0.2", *WINDOWS]
    return ["fit", "squad2", "--data", data, "--encoder", encoder, *words]


def test_a_store_that_was_moved_works_as_before(
    *, fit: list[str], encoder: str, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "elsewhere" / "states"
    moved.parent.mkdir()
    (tmp_path / "store").rename(moved)
    assert main(["store", "verify", str(moved)]) == 0
    assert main([*fit, "--from", f"store:{moved}", "--out", str(tmp_path / "run")]) == 0
    before = everything(moved)
    count = Count(monkeypatch)
    extract_states(request_of(encoder, data), moved)
    assert count.windows == []
    assert everything(moved) == before


def test_a_store_of_another_encoder_is_refused_with_the_difference_and_the_right_command(
    capsys: Capture, fit: list[str], data: str, tmp_path: Path
) -> None:
    other = save_tiny_encoder(tmp_path / "other", seed=1)
    before = everything(tmp_path / "store")
    again = ["--from", f"store:{tmp_path / 'store'}", "--out", str(tmp_path / "run"), "--encoder", other]
    message = message_of(capsys, [*fit, *again])
    assert "train does not fit: fingerprint is " in message
    assert f"Make one that does: bertvision extract squad2 --data {data} " in message
    assert f" --encoder {other} " in message
    extract = ["extract", "squad2", "--data", data, "--encoder", other, *WINDOWS, "--store", str(tmp_path / "store")]
    message = message_of(capsys, extract)
    assert "train holds another store: encoder is " in message
    assert "; fingerprint is " in message
    assert message.endswith("Use another --store.")
    assert everything(tmp_path / "store") == before


def test_a_truncated_shard_is_refused_by_name(capsys: Capture, fit: list[str], tmp_path: Path) -> None:
    cut_short(tmp_path / "store" / "train" / "000000.safetensors")
    message = message_of(capsys, [*fit, "--from", f"store:{tmp_path / 'store'}", "--out", str(tmp_path / "run")])
    assert "train/000000.safetensors cannot be read" in message
    assert f"bertvision store verify {tmp_path / 'store'}" in message
