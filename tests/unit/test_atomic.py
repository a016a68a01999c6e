"""A file or a folder is either whole or not there."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bertvision.atomic import part_of, whole_folder, write_json, write_text
from bertvision.errors import BertVisionError, WriteError
from folders import everything
from launch import ENVIRONMENT

KILLED_IN_A_TEXT = """
import os, sys
from pathlib import Path
from bertvision.atomic import write_text
os.fsync = lambda _: os._exit(9)
write_text(Path(sys.argv[1]) / "a.txt", "new")
"""

KILLED_BETWEEN_TWO_FOLDERS = """
import os, sys
from pathlib import Path
from bertvision.atomic import whole_folder
rename = Path.rename
Path.rename = lambda path, target: os._exit(9) if path.name.endswith(".part") else rename(path, target)
with whole_folder(Path(sys.argv[1]) / "pack", "the pack", otherwise="") as part:
    (part / "a.txt").write_text("new")
"""


def killed(script: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", script, str(folder)], env=ENVIRONMENT, check=False)
    assert done.returncode == 9


def write_folder(folder: Path, text: str) -> None:
    with whole_folder(folder, "the pack", otherwise="Make room.") as part:
        (part / "a.txt").write_text(text, encoding="utf-8")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_text_is_written_as_utf8_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "größer\n")
    assert (tmp_path / "a.txt").read_bytes() == b"gr\xc3\xb6\xc3\x9fer\n"
    assert names(tmp_path) == ["a.txt"]


def test_folders_above_the_file_are_made(tmp_path: Path) -> None:
    write_text(tmp_path / "runs" / "first" / "a.txt", "x")
    assert (tmp_path / "runs" / "first" / "a.txt").read_text(encoding="utf-8") == "x"


def test_an_older_file_is_replaced_whole(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "a long old text")
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "new"


def test_a_path_that_is_not_utf_8_is_kept_in_json(tmp_path: Path) -> None:
    path = os.fsdecode(b"caf\xe9.csv")
    write_json(tmp_path / "a.json", {"data": path, "café": "→"})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"data": path, "café": "→"}
    assert "→" in text


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o002, 0o664), (0o077, 0o600)])
def test_who_may_read_the_file_is_what_the_umask_says(mask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == mode


def test_what_a_killed_writer_leaves_is_cleared_by_the_next(tmp_path: Path) -> None:
    killed(KILLED_IN_A_TEXT, tmp_path)
    assert names(tmp_path) == [".a.txt.part"]
    write_text(tmp_path / "a.txt", "x")
    assert names(tmp_path) == ["a.txt"]


def test_a_full_disk_keeps_the_old_file_and_leaves_no_half_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "a.txt", "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BertVisionError, match=r"a\.txt cannot be written: No space left on device"):
        write_text(tmp_path / "a.txt", "new")
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "old"


def test_a_text_that_utf8_cannot_hold_leaves_no_half_file(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a.txt", "half a pair: \ud800")
    assert names(tmp_path) == []


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(BertVisionError, match="out cannot be written: Is a directory"):
        write_text(tmp_path / "out", "x")
    assert names(tmp_path) == ["out"]


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("I am a file", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"runs/a\.txt cannot be written: Not a directory"):
        write_text(tmp_path / "runs" / "a.txt", "x")


def test_json_is_readable_by_people_and_ends_with_a_line_feed(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"name": "größer", "values": [1, 2.5]})
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert '  "name": "größer"' in text
    assert text.endswith("}\n")
    assert json.loads(text) == {"name": "größer", "values": [1, 2.5]}


def test_numbers_that_json_does_not_have_are_refused_before_a_file_is_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"loss": float("nan")})
    assert names(tmp_path) == []


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    write_folder(tmp_path / "pack", "old")
    (tmp_path / "pack" / "b.txt").touch()
    write_folder(tmp_path / "pack", "new")
    assert everything(tmp_path) == {"pack/a.txt": b"new"}
    assert names(tmp_path) == ["pack"]


def test_a_folder_that_cannot_be_replaced_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "pack", "old")
    rename = Path.rename

    def refused(path: Path, target: Path) -> Path:
        if path.name.endswith(".part"):
            raise OSError(errno.EBUSY, "busy")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(WriteError, match=r"^the pack .*/pack cannot be written: Device or resource busy. Make room.$"):
        write_folder(tmp_path / "pack", "new")
    assert everything(tmp_path) == {"pack/a.txt": b"old"}
    assert names(tmp_path) == ["pack"]


def test_the_older_folder_is_touched_only_when_the_new_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "pack", "old")
    remove: Callable[..., None] = shutil.rmtree
    seen: list[bytes] = []

    def noted(path: Path, **options: bool) -> None:
        seen.append((tmp_path / "pack" / "a.txt").read_bytes())
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", noted)
    write_folder(tmp_path / "pack", "new")
    assert set(seen) == {b"old", b"new"}


@pytest.mark.parametrize("fails", [True, False])
def test_a_folder_that_a_killed_writer_set_aside_comes_back(tmp_path: Path, *, fails: bool) -> None:
    write_folder(tmp_path / "pack", "old")
    killed(KILLED_BETWEEN_TWO_FOLDERS, tmp_path)
    assert names(tmp_path) == [".pack.aside", ".pack.part"]
    if fails:
        with pytest.raises(WriteError, match="mine"), whole_folder(tmp_path / "pack", "the pack", otherwise=""):
            raise OSError("mine")
    else:
        write_folder(tmp_path / "pack", "new")
    assert everything(tmp_path) == {"pack/a.txt": b"old" if fails else b"new"}
    assert names(tmp_path) == ["pack"]


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    write_folder(tmp_path / "pack", "old")
    (tmp_path / "link").symlink_to("pack")
    write_folder(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "pack" / "a.txt").read_bytes() == b"new"
    assert names(tmp_path) == ["link", "pack"]


def test_a_name_that_is_too_long_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"^the pack .* cannot be written: File name too long\. Make room\.$"):
        write_folder(tmp_path / ("a" * 250), "new")
    assert names(tmp_path) == []


def test_a_file_where_a_folder_should_be_stays(tmp_path: Path) -> None:
    (tmp_path / "pack").write_text("mine", encoding="utf-8")
    with pytest.raises(WriteError, match="Not a directory"):
        write_folder(tmp_path / "pack", "new")
    assert everything(tmp_path) == {"pack": b"mine"}


@pytest.mark.parametrize("name", [".", "..", "../.."])
def test_the_working_directory_and_those_above_it_are_not_replaced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "mine").touch()
    monkeypatch.chdir(tmp_path / "a" / "b")
    message = rf"^the pack {name} cannot be written: it is the working directory, or holds it\. Use another folder\.$"
    with pytest.raises(WriteError, match=message):
        write_folder(Path(name), "new")
    assert everything(tmp_path) == {"a/b/mine": b""}


def test_the_place_of_a_folder_without_a_name_is_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert part_of(Path()) == tmp_path / "a" / ".b.part"
    assert part_of(Path("..")) == tmp_path / ".a.part"
    assert part_of(Path("c")) == Path(".c.part")
    with pytest.raises(WriteError, match="cannot be written"):
        write_text(Path(), "x")
