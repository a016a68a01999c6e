"""Read tables from TSV, CSV, JSON, JSONL and Parquet files; rows that cannot be read are reported."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.errors import DataError, MissingExtraError, UnknownNameError
from bertvision.tasks.files import BadRow, describe_not_utf8, read_bytes, read_json, read_text

DELIMITERS = ("\t", ",", ";", "|")
TABLE_FORMATS = (".tsv", ".csv", ".json", ".jsonl", ".parquet")
SAMPLE_ROWS = 50
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a file.

    Attributes:
        path: of the file.
        columns: column names; "0", "1", … if the file has no header.
        rows: line (or number of the object or row) and cells of each row; there are as many cells as columns.
        bad: rows that could not be decoded, parsed or split into as many cells.
    """

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[int, Sequence[object]]]
    bad: list[BadRow]

    def index(self, column: str | int) -> int:
        """Position of a column that is given by name or position.

        Raises:
            DataError: there is no such column, or several have that name; the message lists the columns.
        """
        if isinstance(column, int) and column < len(self.columns):
            return column
        if self.columns.count(str(column)) > 1:
            raise DataError(
                f"{self.path}: {self.columns.count(str(column))} columns are called '{column}', one is expected. "
                f"Rename all but one. Columns: {', '.join(self.columns)}."
            )
        if column in self.columns:
            return self.columns.index(str(column))
        raise DataError(f"{self.path}: {UnknownNameError('column', str(column), self.columns)}")

    def where(self, line: int) -> str:
        """`file:line`."""
        return f"{self.path}:{line}"


def format_of(path: Path) -> str:
    """Format of a file by its ending before any `.gz`: one of `TABLE_FORMATS`; `.txt` is read as `.tsv`.

    Raises:
        DataError: no format has this ending.
    """
    ending = find_format(path)
    if ending is None:
        raise DataError(
            f"{path}: files of this kind are not read. Expected one of {', '.join(TABLE_FORMATS)} (or .gz)."
        )
    return ending


def find_format(path: Path) -> str | None:
    """Format of a file as in `format_of`; None if no format has this ending."""
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    ending = suffixes[-1].lower() if suffixes else ""
    if ending == ".txt":
        return ".tsv"
    return ending if ending in TABLE_FORMATS else None


def read_table(path: Path, *, delimiter: str | None, quoting: bool | None, header: bool) -> Table:
    """Read a file of any of the `TABLE_FORMATS`.

    Args:
        path: of the file.
        delimiter: of TSV and CSV; None detects it.
        quoting: whether "…" quotes a cell of TSV and CSV; None detects it.
        header: whether the first line of TSV and CSV names the columns.

    Raises:
        DataError: the file as a whole cannot be read.
        MissingExtraError: it is Parquet, and `pyarrow` is not installed.
    """
    match format_of(path):
        case ".json":
            return _from_objects(path, enumerate(_list_of_objects(path), start=1), [])
        case ".jsonl":
            return _read_jsonl(path)
        case ".parquet":
            return _read_parquet(path)
        case _:
            if delimiter is not None and quoting is False:
                return _read_plain(path, delimiter, header=header)
            text = read_text(path)
            csv.field_size_limit(sys.maxsize)  # a cell may hold a whole document
            delimiter, quoting = detect_dialect(text, path, delimiter=delimiter, quoting=quoting)
            if quoting:
                return _read_quoted(path, text, delimiter, header=header)
            return _read_plain(path, delimiter, header=header)


def _read_plain(path: Path, delimiter: str, *, header: bool) -> Table:
    """Read without quoting, as GLUE's files need: every delimiter and line feed splits, quotes are text."""
    content = read_bytes(path).removeprefix(BYTE_ORDER_MARK).rstrip(b"\r\n")
    lines: list[tuple[int, Sequence[object]]] = []
    bad = []
    # str.splitlines would also split at form feeds and Unicode line separators, which texts may contain
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            lines.append((number, line.removesuffix(b"\r").decode("utf-8").split(delimiter)))
        except UnicodeDecodeError as error:
            bad.append(BadRow(f"{path}:{number}", describe_not_utf8(error)))
    return _with_columns(path, lines, bad, header=header)


def _read_quoted(path: Path, text: str, delimiter: str, *, header: bool) -> Table:
    """Read with CSV quoting: a quoted cell may contain delimiters, line feeds and doubled quotes."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: list[tuple[int, Sequence[object]]] = []
    line = 1
    try:
        for cells in reader:
            lines.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{line}: broken quoting ({error}). If quote characters are plain text here: --quoting none"
        ) from None
    while lines and not lines[-1][1]:
        lines.pop()
    return _with_columns(path, lines, [], header=header)


def _with_columns(path: Path, lines: list[tuple[int, Sequence[object]]], bad: list[BadRow], *, header: bool) -> Table:
    """A table of split lines; lines with another number of cells than the first become bad rows."""
    if not lines or (header and lines[0][0] > 1):
        problems = "".join(f"\n  {row}" for row in bad[:1])
        raise DataError(f"{path} has no readable {'header' if lines else 'line'}.{problems}")
    first = lines[0][1]
    columns = tuple(str(cell) for cell in first) if header else tuple(str(i) for i in range(len(first)))
    rows = []
    for number, cells in lines[1:] if header else lines:
        if len(cells) == len(columns):
            rows.append((number, cells))
        else:
            problem = f"{len(cells)} columns, expected {len(columns)}" if any(cells) else "an empty line"
            bad.append(BadRow(f"{path}:{number}", problem))
    return Table(path, columns, rows, bad)


def detect_dialect(text: str, path: Path, *, delimiter: str | None, quoting: bool | None) -> tuple[str, bool]:
    """Guess delimiter and quoting: the choice that gives the most columns, the same number in nearly all rows.

    A choice is rated by its number of columns if at least 90 % of the rows have as many as the first one. Otherwise, as
    in a small file with a bad row, by the share of such rows, which is less than any number of columns.

    Args:
        text: content of the file, of which the first `SAMPLE_ROWS` lines are used.
        path: of the file; its ending decides which delimiter is tried first.
        delimiter: None if unknown.
        quoting: None if unknown.

    Returns:
        Delimiter, and whether "…" quotes a cell.
    """
    sample = "\n".join(text.split("\n", SAMPLE_ROWS)[:SAMPLE_ROWS])
    usual = "\t" if format_of(path) == ".tsv" else ","
    delimiters = (delimiter,) if delimiter else (usual, *(d for d in DELIMITERS if d != usual))
    choices = [(d, q) for d in delimiters for q in ((True, False) if quoting is None else (quoting,))]

    def regularity(choice: tuple[str, bool]) -> float:
        style: Literal[0, 3] = csv.QUOTE_MINIMAL if choice[1] else csv.QUOTE_NONE
        widths = []
        try:
            for cells in csv.reader(io.StringIO(sample, newline=""), delimiter=choice[0], quoting=style, strict=True):
                widths.append(len(cells))  # noqa: PERF401 - the rows before a broken one still count
        except csv.Error:
            # the sample may end inside a quoted cell; the rows before it count
            pass
        widths = [width for width in widths if width]
        if not widths or widths[0] == 1:
            return 0
        share = widths.count(widths[0]) / len(widths)
        return widths[0] if share >= 0.9 else share

    ratings = {choice: regularity(choice) for choice in choices}
    for d in delimiters:
        if ratings.get((d, True), 0) > 1:
            ratings.pop((d, False), None)  # without quoting there may be more columns, since quoted cells are split
    return max(ratings, key=lambda choice: ratings[choice])  # the first of equals: the usual delimiter, with quoting


def _list_of_objects(path: Path) -> list[object]:
    content = read_json(path)
    if isinstance(content, dict) and isinstance(content.get("data"), list):
        content = content["data"]
    if not isinstance(content, list):
        raise DataError(f"{path}: a list of objects is expected, got {type(content).__name__}.")
    return content


def _read_jsonl(path: Path) -> Table:
    rows: list[tuple[int, object]] = []
    bad = []
    for number, line in enumerate(read_text(path).rstrip().split("\n"), start=1):
        try:
            rows.append((number, json.loads(line)))
        except (ValueError, RecursionError) as error:
            bad.append(BadRow(f"{path}:{number}", f"not JSON ({error})"))
    return _from_objects(path, rows, bad)


def _from_objects(path: Path, objects: Iterable[tuple[int, object]], bad: list[BadRow]) -> Table:
    rows: list[tuple[int, dict[str, object]]] = []
    for number, value in objects:
        if isinstance(value, dict):
            rows.append((number, value))
        else:
            bad.append(BadRow(f"{path}:{number}", f"an object is expected, got {type(value).__name__}"))
    columns = tuple(dict.fromkeys(key for _, row in rows for key in row))
    if not columns:
        raise DataError(f"{path} has no object with columns.\n" + "\n".join(f"  {row}" for row in bad[:1]))
    return Table(path, columns, [(number, [row.get(name) for name in columns]) for number, row in rows], bad)


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an optional dependency, for Parquet only
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError(f"reading {path}", "pyarrow", "data") from None
    try:
        content = parquet.read_table(io.BytesIO(read_bytes(path)))
        columns = {name: content.column(name).to_pylist() for name in content.column_names}
    except (pa.ArrowException, OSError, OverflowError, ValueError) as error:  # a damaged file, or invalid cells
        raise DataError(f"{path}: not a whole Parquet file ({str(error).strip()}).") from None
    return Table(path, tuple(columns), list(enumerate(zip(*columns.values(), strict=True), start=1)), [])
