"""A file is either whole or not there."""

import errno
import json
import os
from pathlib import Path

import pytest

from bertvision.atomic import write_json, write_text
from bertvision.errors import BertVisionError


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


def test_others_may_read_the_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "x")
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


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
    with pytest.raises(BertVisionError, match=r"runs/a\.txt cannot be written: File exists"):
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
