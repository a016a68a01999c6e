"""Whatever is wrong with a file is said in one sentence."""

import gzip
from pathlib import Path

import pytest

from bertvision.errors import DataError
from bertvision.tasks.files import BadRow, check_unicode, describe_bad_rows, read_bytes, read_json, read_text, read_toml

BOM = b"\xef\xbb\xbf"


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_plain_and_gzipped_files_give_the_same_bytes(tmp_path: Path) -> None:
    content = b"one\ntwo\n"
    assert read_bytes(write(tmp_path / "a.txt", content)) == content
    assert read_bytes(write(tmp_path / "a.txt.gz", gzip.compress(content))) == content


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.tsv does not exist\. Check the path\."):
        read_bytes(tmp_path / "nowhere.tsv")


def test_a_folder_instead_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is a folder, a file is expected\. Name one of the files in it\."):
        read_bytes(tmp_path)


def test_a_path_that_the_system_refuses_comes_with_its_reason(tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv", b"x")
    with pytest.raises(DataError, match=r"cannot be read: Not a directory\."):
        read_bytes(file / "b.tsv")


@pytest.mark.parametrize("content", [b"", b" \r\n\n\t"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_file_without_content_is_empty(tmp_path: Path, content: bytes, ending: str) -> None:
    path = write(tmp_path / f"a.tsv{ending}", gzip.compress(content) if ending else content)
    with pytest.raises(DataError, match=r"is empty\. A file with text or data in it is expected\."):
        read_bytes(path)


WHOLE = gzip.compress(b"some text that is long enough to be worth packing " * 20)
BROKEN = {
    "plain text": b"sentence\tlabel\n",
    "cut in the data": WHOLE[: len(WHOLE) // 2],
    "cut in the checksum": WHOLE[:-3],
    "wrong checksum": WHOLE[:-8] + bytes(8),
    "garbled data": WHOLE[:12] + b"\xff\xff\xff" + WHOLE[15:],
    "garbage behind": WHOLE + b"garbage",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_gzip_file_is_to_be_copied_again(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"a\.tsv\.gz is not a whole gzip file \(.+\)\. Copy or download it again\."):
        read_bytes(write(tmp_path / "a.tsv.gz", content))


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert read_text(write(tmp_path / "a.csv", BOM + "é".encode())) == "é"


@pytest.mark.parametrize("start", [b"", BOM], ids=["plain", "byte order mark"])
def test_bytes_that_are_not_utf8_are_named_with_their_line(tmp_path: Path, start: bytes) -> None:
    path = write(tmp_path / "a.csv", start + b"one\ntwo\n\xe9t\xe9\n")
    with pytest.raises(DataError, match=r"a\.csv:3: not UTF-8 \(byte 0xe9\)\. Convert the file, e\.g\. with: iconv"):
        read_text(path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_told_from_other_encodings(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "a.csv", "\ufefftext,label\n".encode(encoding))
    with pytest.raises(DataError, match=r"a\.csv:1: not UTF-8 .* iconv -f utf-16 -t utf-8$"):
        read_text(path)


def test_json_is_read_with_a_byte_order_mark_too(tmp_path: Path) -> None:
    assert read_json(write(tmp_path / "a.json", BOM + b'{"a": [1, null]}')) == {"a": [1, None]}


def test_what_is_not_json_is_named_with_its_line_and_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", b'{"a": 1,\n "b" 2}')
    with pytest.raises(DataError, match=r"a\.json:2: not JSON \(Expecting ':' delimiter, column 6\)"):
        read_json(path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"9" * 10_000], ids=["too deep", "too many digits"])
def test_json_beyond_what_python_reads_is_an_error_of_ours(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"a\.json: not JSON that can be read"):
        read_json(write(tmp_path / "a.json", content))


def test_toml_is_read_with_a_byte_order_mark_too(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbfseeds = 3\n")
    assert read_toml(tmp_path / "a.toml") == {"seeds": 3}


@pytest.mark.parametrize("content", [b"a = 1 2", b"a = " + 100_000 * b"[", b"\xff"])
def test_what_is_not_toml_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.toml cannot be read as TOML"):
        read_toml(tmp_path / "a.toml")


def test_half_of_a_surrogate_pair_is_refused_and_a_whole_one_is_not() -> None:
    check_unicode("a smile: \U0001f600")
    with pytest.raises(ValueError, match=r"character 2 is half of a surrogate pair \(\\ud83d\)"):
        check_unicode("a \ud83d")


def test_a_bad_row_reads_as_place_and_problem() -> None:
    assert str(BadRow("dev.tsv:7", "3 columns, expected 2")) == "dev.tsv:7: 3 columns, expected 2"


def test_the_first_five_bad_rows_are_shown_and_the_rest_counted() -> None:
    rows = [BadRow(f"a.tsv:{line}", "broken") for line in range(1, 1_206)]
    assert describe_bad_rows(rows[:5]).splitlines() == [f"  a.tsv:{line}: broken" for line in range(1, 6)]
    assert describe_bad_rows(rows).splitlines()[5:] == ["  … and 1,200 more"]
