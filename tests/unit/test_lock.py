"""One process at a time works in a folder."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError
from bertvision.lock import LOCK, lock_folder

HOLD = """
import sys, time
from pathlib import Path
from bertvision.lock import lock_folder
with lock_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_folder_that_is_in_use_is_refused_with_its_holder(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "a" / "b"):
        with (
            pytest.raises(BertVisionError, match=rf"b is in use by another process \({os.getpid()} on .*\)\. Wait for"),
            lock_folder(tmp_path / "a" / "b"),
        ):
            pytest.fail("it was let in")
        assert (tmp_path / "a" / "b" / LOCK).exists()
    assert not (tmp_path / "a" / "b").exists()  # nothing was put into it


def test_a_folder_with_something_in_it_stays_without_the_lock(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "new"):
        (tmp_path / "new" / "kept").touch()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["kept"]


def test_a_folder_is_let_go_when_the_work_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), lock_folder(tmp_path):
        raise KeyboardInterrupt
    with lock_folder(tmp_path):
        pass


def test_a_process_that_was_killed_holds_nobody_up(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with (
            pytest.raises(BertVisionError, match=rf"in use by another process \({process.pid} on "),
            lock_folder(tmp_path),
        ):
            pytest.fail("it was let in")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / LOCK).exists()
    with lock_folder(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text(encoding="utf-8")


def test_whoever_waits_gets_the_folder_when_its_holder_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        threading.Timer(0.3, process.kill).start()
        with lock_folder(tmp_path, wait=True):
            assert process.wait() == -signal.SIGKILL


def test_a_lock_that_was_removed_between_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.open, []

    def opened(path: Path, flags: int, mode: int) -> int:
        handle = real(path, flags, mode)
        calls.append(path)
        if len(calls) == 1:
            path.unlink()  # as its last holder does
        return handle

    monkeypatch.setattr(os, "open", opened)
    with lock_folder(tmp_path):
        assert len(calls) == 2
        assert (tmp_path / LOCK).exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(BertVisionError, match=r"\.lock cannot be written: .*\. Use another folder\."),
        lock_folder(tmp_path / "file"),
    ):
        pytest.fail("it was let in")
