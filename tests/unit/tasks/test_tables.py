"""Every row of a file is read, or reported with its line."""

import csv
import gzip
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from bertvision.errors import DataError, MissingExtraError
from bertvision.tasks.tables import Table, format_of, read_table


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def detect(path: Path, *, header: bool = True) -> Table:
    return read_table(path, delimiter=None, quoting=None, header=header)


def plain(path: Path, *, header: bool = True) -> Table:
    return read_table(path, delimiter="\t", quoting=False, header=header)


def cells(table: Table) -> list[list[object]]:
    return [list(row) for _, row in table.rows]


def problems(table: Table) -> list[str]:
    return [str(row).rpartition("/")[2] for row in table.bad]


# --- which format a file has


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("a.tsv", ".tsv"),
        ("a.CSV", ".csv"),
        ("a.v2.json.gz", ".json"),
        ("a.txt", ".tsv"),
        ("a.jsonl", ".jsonl"),
        ("a.parquet", ".parquet"),
    ],
)
def test_the_ending_tells_the_format(name: str, format_: str) -> None:
    assert format_of(Path(name)) == format_


@pytest.mark.parametrize("name", ["a.xlsx", "a", "a.gz"])
def test_other_endings_are_refused_with_those_that_are_read(name: str) -> None:
    with pytest.raises(DataError, match=r"not read\. Expected one of \.tsv, \.csv, \.json, \.jsonl, \.parquet"):
        format_of(Path(name))


# --- columns


def test_columns_are_found_by_name_and_by_number() -> None:
    table = Table(Path("a.tsv"), ("text", "label"), [], [])
    assert table.index("label") == 1
    assert table.index(1) == 1


def test_a_place_in_a_table_is_file_and_line() -> None:
    assert Table(Path("a.tsv"), ("text",), [], []).where(7) == "a.tsv:7"


@pytest.mark.parametrize("column", ["lable", 2])
def test_a_column_that_is_not_there_is_answered_with_those_that_are(column: str | int) -> None:
    table = Table(Path("a.tsv"), ("text", "label"), [], [])
    with pytest.raises(DataError, match=rf"a\.tsv: unknown column '{column}'\..* Known: label, text\."):
        table.index(column)


def test_without_a_header_columns_are_numbered(tmp_path: Path) -> None:
    table = plain(write(tmp_path / "a.tsv", "x\t1\ny\t0\n"), header=False)
    assert table.columns == ("0", "1")
    assert cells(table) == [["x", "1"], ["y", "0"]]


# --- plain lines, as in GLUE


def test_quote_characters_are_text_in_plain_lines(tmp_path: Path) -> None:
    table = plain(write(tmp_path / "a.tsv", 'text\tlabel\n"He said\t1\nit "\t0\n'))
    assert cells(table) == [['"He said', "1"], ['it "', "0"]]


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"])
def test_only_a_line_feed_ends_a_plain_line(tmp_path: Path, inside: str) -> None:
    table = plain(write(tmp_path / "a.tsv", f"text\tlabel\none{inside}two\t1\n"))
    assert cells(table) == [[f"one{inside}two", "1"]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n", "\r\n", "\n\n"])
def test_line_ends_and_the_last_one_make_no_difference(tmp_path: Path, end: str, last: str) -> None:
    table = plain(write(tmp_path / "a.tsv", f"text\tlabel{end}x\t1{end}y\t0{last}"))
    assert (table.columns, cells(table), table.bad) == (("text", "label"), [["x", "1"], ["y", "0"]], [])


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert plain(write(tmp_path / "a.tsv", "\ufefftext\tlabel\nx\t1\n")).columns == ("text", "label")


def test_plain_rows_that_do_not_fit_are_reported_with_their_line(tmp_path: Path) -> None:
    table = plain(write(tmp_path / "a.tsv", b"text\tlabel\nx\t1\n\nx\ty\t1\n\xe9\t1\nlast\t0\n"))
    assert table.rows == [(2, ["x", "1"]), (6, ["last", "0"])]
    assert sorted(problems(table)) == [
        "a.tsv:3: an empty line",
        "a.tsv:4: 3 columns, expected 2",
        "a.tsv:5: not UTF-8 (byte 0xe9). Convert the file, e.g. with: iconv -f latin1 -t utf-8",
    ]


def test_a_file_without_a_readable_line_shows_the_first_problem(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)a\.tsv has no readable line\..*a\.tsv:1: not UTF-8 \(byte 0xff\)"):
        plain(write(tmp_path / "a.tsv", b"\xff\n\xfe"), header=False)


def test_the_first_row_does_not_stand_in_for_an_unreadable_header(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"(?s)a\.tsv has no readable header\..*a\.tsv:1: not UTF-8 \(byte 0xe9\)"):
        plain(write(tmp_path / "a.tsv", b"t\xe9xt\tlabel\nx\t1\n"))


# --- CSV with quoting


def test_quoted_cells_hold_commas_line_feeds_and_doubled_quotes(tmp_path: Path) -> None:
    table = detect(write(tmp_path / "a.csv", 'text,label\n"one, two",1\n"first\nsecond",0\n"a ""b"" c",1\n'))
    assert table.rows == [(2, ["one, two", "1"]), (3, ["first\nsecond", "0"]), (5, ['a "b" c', "1"])]


def test_csv_rows_that_do_not_fit_are_reported_with_the_line_they_start_at(tmp_path: Path) -> None:
    table = detect(write(tmp_path / "a.csv", 'text,label\n"first\nsecond",0\nx,1,2\n\ny,1\n'))
    assert [line for line, _ in table.rows] == [2, 6]
    assert problems(table) == ["a.csv:4: 3 columns, expected 2", "a.csv:5: an empty line"]


def test_empty_lines_at_the_end_of_a_csv_file_are_no_rows(tmp_path: Path) -> None:
    table = detect(write(tmp_path / "a.csv", "text,label\nx,1\n\n\n"))
    assert (cells(table), table.bad) == ([["x", "1"]], [])


def test_broken_quoting_names_the_row_it_starts_in_and_the_option(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'text,label\nx,1\n"y" z,0\n')
    with pytest.raises(DataError, match=r"a\.csv:3: broken quoting \(.+\)\. If quote .* text here: --quoting none"):
        read_table(path, delimiter=",", quoting=True, header=True)


def test_a_quote_that_is_never_closed_is_broken_quoting(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv:2: broken quoting \(unexpected end of data\)"):
        read_table(write(tmp_path / "a.csv", 'text,label\n"x,1\ny,0\n'), delimiter=",", quoting=True, header=True)


def test_a_csv_file_with_nothing_behind_its_byte_order_mark_has_no_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv has no readable line\."):
        detect(write(tmp_path / "a.csv", b"\xef\xbb\xbf"))


def test_a_csv_file_that_is_not_utf8_is_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv:2: not UTF-8 \(byte 0xe9\)"):
        detect(write(tmp_path / "a.csv", b"text,label\ncaf\xe9,1\n"))


@pytest.fixture
def _usual_limit() -> None:
    csv.field_size_limit(131_072)  # Python's own; the limit holds for the whole process


@pytest.mark.usefixtures("_usual_limit")
def test_a_cell_may_hold_a_whole_document(tmp_path: Path) -> None:
    document = "word; " * 50_000
    table = detect(write(tmp_path / "a.csv", f'"{document}";1\nshort;0\n'), header=False)
    assert cells(table) == [[document, "1"], ["short", "0"]]


def test_the_limit_of_a_cell_is_the_largest_there_is(tmp_path: Path) -> None:
    detect(write(tmp_path / "a.csv", "text,label\nx,1\n"))
    assert csv.field_size_limit() == sys.maxsize


# --- detection


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
@pytest.mark.parametrize("delimiter", ["\t", ",", ";", "|"])
def test_the_delimiter_is_found_whatever_the_ending(tmp_path: Path, name: str, delimiter: str) -> None:
    rows = [["text", "label"], ["good", "1"], ["bad", "0"]]
    table = detect(write(tmp_path / name, "".join(delimiter.join(row) + "\n" for row in rows)))
    assert [list(table.columns), *cells(table)] == rows


def test_a_semicolon_file_with_commas_in_its_texts_is_split_at_semicolons(tmp_path: Path) -> None:
    table = detect(write(tmp_path / "a.csv", "text;label\nyes, of course;1\nno;0\nwell, no, yes;1\n"))
    assert cells(table) == [["yes, of course", "1"], ["no", "0"], ["well, no, yes", "1"]]


def test_where_two_delimiters_fit_the_ending_decides(tmp_path: Path) -> None:
    content = "a,b\tc\n1,2\t3\n"
    assert detect(write(tmp_path / "a.csv", content)).columns == ("a", "b\tc")
    assert detect(write(tmp_path / "a.tsv", content)).columns == ("a,b", "c")


def test_a_bad_row_does_not_hide_the_delimiter_of_a_small_file(tmp_path: Path) -> None:
    table = detect(write(tmp_path / "a.csv", "text;label\none;1\nthree;cells;0\nyes, or no;0\n"))
    assert cells(table) == [["one", "1"], ["yes, or no", "0"]]
    assert problems(table) == ["a.csv:3: 3 columns, expected 2"]


def test_quotes_under_which_rows_have_unequal_lengths_are_text(tmp_path: Path) -> None:
    table = detect(write(tmp_path / "a.tsv", 'word\tmeaning\ncat\tanimal\n"\t"\n"\t"\n'))  # ditto marks
    assert cells(table) == [["cat", "animal"], ['"', '"'], ['"', '"']]


def test_quoted_cells_that_all_hold_the_delimiter_are_not_cut(tmp_path: Path) -> None:
    table = detect(write(tmp_path / "a.csv", '"Yes, sir",1\n"No, sir",0\n'), header=False)
    assert cells(table) == [["Yes, sir", "1"], ["No, sir", "0"]]


def test_a_sample_that_ends_inside_a_quoted_cell_does_not_mislead(tmp_path: Path) -> None:
    rows = [[f"text {number}, first\nsecond\nthird", str(number % 2)] for number in range(40)]
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["text", "label"], *rows])
    assert cells(detect(write(tmp_path / "a.csv", stream.getvalue()))) == rows


def test_the_given_delimiter_and_quoting_are_not_second_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", '"a;b";c,d\n"1;2";3,4\n')
    with pytest.raises(DataError, match=r"a\.csv:1: broken quoting \(',' expected"):
        read_table(path, delimiter=",", quoting=True, header=False)
    assert cells(read_table(path, delimiter=";", quoting=None, header=False)) == [["a;b", "c,d"], ["1;2", "3,4"]]
    assert cells(read_table(path, delimiter=";", quoting=False, header=False)) == [
        ['"a', 'b"', "c,d"],
        ['"1', '2"', "3,4"],
    ]
    assert cells(read_table(path, delimiter=None, quoting=False, header=False)) == [
        ['"a', 'b"', "c,d"],
        ['"1', '2"', "3,4"],
    ]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6), st.sampled_from([",", ";", "\t", "|"]))
@settings(max_examples=60, deadline=None)
def test_what_the_csv_writer_of_python_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: Sequence[tuple[str, str]], delimiter: str
) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    path = write(tmp_path_factory.getbasetemp() / "round.csv", stream.getvalue())
    assert cells(read_table(path, delimiter=delimiter, quoting=True, header=True)) == [list(row) for row in rows]


# --- JSON and JSONL


def test_a_list_of_objects_has_the_columns_of_all_of_them(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", json.dumps([{"text": "x", "label": 1}, {"text": "y", "more": [2]}]))
    table = detect(path)
    assert table.columns == ("text", "label", "more")
    assert cells(table) == [["x", 1, None], ["y", None, [2]]]


def test_a_list_under_data_is_taken_too(tmp_path: Path) -> None:
    assert cells(detect(write(tmp_path / "a.json", '{"version": 1, "data": [{"text": "x"}]}'))) == [["x"]]


def test_entries_that_are_no_objects_are_reported_with_their_number(tmp_path: Path) -> None:
    table = detect(write(tmp_path / "a.json", '[{"text": "x"}, 5, {"text": "y"}, null]'))
    assert table.rows == [(1, ["x"]), (3, ["y"])]
    assert problems(table) == [
        "a.json:2: an object is expected, got int",
        "a.json:4: an object is expected, got NoneType",
    ]


@pytest.mark.parametrize("content", ['{"text": "x"}', '"x"', "3"])
def test_json_that_is_no_list_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match=r"a\.json: a list of objects is expected, got (dict|str|int)\."):
        detect(write(tmp_path / "a.json", content))


@pytest.mark.parametrize(("content", "problem"), [("[]", ""), ("[{}]", ""), ("[1, 2]", "a.json:1: an object")])
def test_json_without_columns_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(DataError, match=rf"(?s)a\.json has no object with columns\..*{problem}"):
        detect(write(tmp_path / "a.json", content))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_jsonl_rows_stand_on_their_lines(tmp_path: Path, end: str) -> None:
    table = detect(write(tmp_path / "a.jsonl", f'{{"text": "x\u2028\x85y"}}{end}{{"text": "z"}}{end}{end}'))
    assert table.rows == [(1, ["x\u2028\x85y"]), (2, ["z"])]
    assert table.bad == []


def test_jsonl_lines_that_are_no_objects_are_reported_with_their_line(tmp_path: Path) -> None:
    lines = ['{"text": "x"}', '{"text": ', "", "[1]", "[" * 100_000, "9" * 10_000, '{"text": "y"}']
    table = detect(write(tmp_path / "a.jsonl", "\n".join(lines)))
    assert table.rows == [(1, ["x"]), (7, ["y"])]
    assert {problem.split(":")[1] for problem in problems(table)} == {"2", "3", "4", "5", "6"}
    assert "a.jsonl:4: an object is expected, got list" in problems(table)
    assert any(problem.startswith("a.jsonl:2: not JSON (Expecting value") for problem in problems(table))


# --- Parquet


def parquet_bytes(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    parquet.write_table(table, stream)
    return stream.getvalue()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_parquet_gives_rows_with_their_types(tmp_path: Path, ending: str) -> None:
    content = parquet_bytes(pa.table({"text": ["x", None], "label": [1.5, 2.0]}))
    table = detect(write(tmp_path / f"a.parquet{ending}", gzip.compress(content) if ending else content))
    assert table.columns == ("text", "label")
    assert cells(table) == [["x", 1.5], [None, 2.0]]


WHOLE = parquet_bytes(pa.table({"text": ["some text"], "label": [1]}))
BAD_TEXT = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
BROKEN = {
    "plain text": b"text,label\n",
    "cut": WHOLE[:-20],
    "garbled footer": WHOLE[:-60] + b"\xff" * 20 + WHOLE[-40:],
    "text that is not UTF-8": parquet_bytes(pa.table({"text": BAD_TEXT})),
    "a date beyond the calendar": parquet_bytes(pa.table({"day": pa.array([2**31 - 1], pa.date32())})),
    "the same column twice": parquet_bytes(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_broken_parquet_file_is_an_error_of_ours(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"a\.parquet: not a whole Parquet file \("):
        detect(write(tmp_path / "a.parquet", content))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        MissingExtraError, match=r"reading .*a\.parquet needs the package 'pyarrow'.*bertvision\[data\]"
    ):
        detect(write(tmp_path / "a.parquet", WHOLE))
