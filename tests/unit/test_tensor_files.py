"""A file of tensors is whole and on the disk, or not there."""

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from bertvision.errors import WriteError
from bertvision.tensor_files import save_tensors
from folders import everything
from launch import ENVIRONMENT

SMALL = {"a": torch.arange(3.0)}
LARGE = {"a": torch.zeros(20_000)}

KILLED = """
import resource, signal, sys
import torch
from pathlib import Path
from bertvision.tensor_files import save_tensors
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # the system kills whoever writes more, amid the write
save_tensors(Path(sys.argv[1]), {"a": torch.zeros(20_000)})
"""


@contextmanager
def small_files() -> Iterator[None]:
    """Let no file grow beyond 4 KB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def test_tensors_and_what_else_is_said_are_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a.safetensors", LARGE)
    save_tensors(tmp_path / "a.safetensors", SMALL, {"statistics": "abc"})
    assert torch.equal(load_file(tmp_path / "a.safetensors")["a"], SMALL["a"])
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert file.metadata() == {"statistics": "abc"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600), (0o000, 0o666)])
def test_who_may_read_the_file_is_what_the_umask_says(mask: int, mode: int, tmp_path: Path) -> None:
    with umask(mask):
        save_tensors(tmp_path / "a.safetensors", SMALL)
    assert (tmp_path / "a.safetensors").stat().st_mode & 0o777 == mode


def test_a_disk_that_is_really_full_keeps_the_older_file_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_tensors(path, SMALL)
    before = everything(tmp_path)
    expected = r"a\.safetensors cannot be written: .*File too large.*\. Make room, or use another folder\.$"
    with small_files(), pytest.raises(WriteError, match=expected):
        save_tensors(path, LARGE)
    assert everything(tmp_path) == before
    assert [found.name for found in tmp_path.iterdir()] == ["a.safetensors"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "device is full"), SafetensorError("No space left on device")])
def test_a_message_says_what_why_and_what_to_do(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: dict[str, Tensor], path: Path, **__: object) -> None:
        path.write_bytes(b"half")
        raise error

    monkeypatch.setattr("bertvision.tensor_files.save_file", full)
    with pytest.raises(WriteError) as caught:
        save_tensors(tmp_path / "a.safetensors", SMALL, otherwise="Make room.")
    expected = f"{tmp_path / 'a.safetensors'} cannot be written: No space left on device. Make room."
    assert str(caught.value) == expected
    assert list(tmp_path.iterdir()) == []


def test_tensors_that_cannot_be_saved_are_a_bug_and_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="contiguous"):
        save_tensors(tmp_path / "a.safetensors", {"a": torch.zeros(3, 4).T})
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_leaves_is_cleared_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=ENVIRONMENT, check=False)
    assert killed.returncode < 0
    assert [found.name for found in tmp_path.iterdir()] == [".a.safetensors.part"]
    save_tensors(path, SMALL)
    assert [found.name for found in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_is_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    sync, replace = os.fsync, Path.replace

    def noted_sync(handle: int) -> None:
        events.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        sync(handle)

    def noted_replace(path: Path, target: Path) -> Path:
        events.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    save_tensors(tmp_path / "a.safetensors", SMALL)
    assert events == ["sync a.safetensors", "rename", f"sync {tmp_path.name}"]
