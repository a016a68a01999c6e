"""Read files example by example in little memory: SQuAD's JSON, CSV, TSV and JSONL; other tables as a whole."""

import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

from bertvision.errors import BertVisionError, DataError, UnknownNameError
from bertvision.packs.card import PackCard
from bertvision.packs.inputs import TextInput, takes_pairs
from bertvision.tasks.files import check_unicode, describe_not_utf8
from bertvision.tasks.tables import SAMPLE_ROWS, detect_dialect, format_of, read_table
from bertvision.tasks.task import SquadLayout, TableLayout

CHUNK = 1 << 20
"""Characters of SQuAD's JSON that are read at a time."""

KEY = 1000
"""Most characters of the key `data` of SQuAD's JSON, with the spaces after it."""

_DATA = re.compile(r'"data"\s*:\s*\[')
_SEPARATORS = re.compile(r"[\s,]*")
_REPEATED = object()
"""Stands in the place of the cells of columns with the same name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of the columns of a table; None takes the name in the pack's task."""

    text: str | None = None
    text_pair: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """An example to predict: its id, and a text, a pair of texts, or a question and its context."""

    id: str
    input: TextInput


def stream_rows(path: Path, card: PackCard, columns: Columns | None = None) -> Generator[Row]:
    """Yield the examples of a file; only a part of it is in memory at a time, except for tables in JSON or Parquet.

    Raises:
        DataError: the file cannot be read, or an example does not have the form of the pack's task.
    """
    columns = columns or Columns()
    _check_columns(card, columns)
    layout = card.task.layout
    if isinstance(layout, TableLayout) and format_of(path) in (".json", ".parquet"):
        yield from _rows(_table(path), path, card, layout, columns)
        return
    with _open(path) as file:
        match layout:
            case SquadLayout():
                yield from _questions(file, path)
            case TableLayout():
                cells = _objects(file, path) if format_of(path) == ".jsonl" else _cells(file, path, layout)
                yield from _rows(cells, path, card, layout, columns)


def _check_columns(card: PackCard, columns: Columns) -> None:
    """Refuse the names of columns that no file of the pack's task has.

    Raises:
        BertVisionError: a column of a table is named and questions are read, or a second text and single ones are.
    """
    given = {"--text": columns.text, "--text-pair": columns.text_pair, "--id": columns.id}
    needless = [option for option, name in given.items() if name is not None]
    if isinstance(card.task.layout, SquadLayout) and needless:
        raise BertVisionError(
            f"{needless[0]} names a column of a table; {card.task.name} is read from SQuAD's JSON. Leave it out."
        )
    if columns.text_pair is not None and not takes_pairs(card):
        raise BertVisionError(f"--text-pair is given; the pack for {card.task.name} reads single texts. Leave it out.")


def no_example(path: Path) -> DataError:
    """The error for a file without examples."""
    return DataError(f"{path} has no example: it has no row below its header, or no question. Name one that has some.")


@contextmanager
def _open(path: Path) -> Iterator[TextIO]:
    """Open a plain or gzipped file as UTF-8; errors while it is read are raised as `DataError`, too."""
    try:
        with (
            gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as raw,
            io.TextIOWrapper(raw, encoding="utf-8-sig", newline="\n") as file,
        ):
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: {describe_not_utf8(error)}") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}). Copy or download it again.") from None
    except FileNotFoundError:
        raise DataError(f"{path} does not exist. Check the path.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _questions(file: TextIO, path: Path) -> Iterator[Row]:
    for number, article in enumerate(_articles(file, path)):
        where = f"{path}:data[{number}]"
        match article:
            case {"paragraphs": list(paragraphs)}:
                for place, paragraph in enumerate(paragraphs):
                    yield from _paragraph(paragraph, f"{where}.paragraphs[{place}]")
            case _:
                raise DataError(f"{where}: an article with a list 'paragraphs' is expected.")


def _paragraph(paragraph: object, where: str) -> Iterator[Row]:
    match paragraph:
        case {"context": str(context), "qas": list(questions)} if context.strip():
            pass
        case _:
            raise DataError(f"{where}: a paragraph with the text 'context' and the list 'qas' is expected.")
    for number, question in enumerate(questions):
        match question:
            case {"id": str() | int() as key, "question": str(text)} if text.strip():
                yield _row(str(key), (text, context), f"{where}.qas[{number}]")
            case _:
                raise DataError(f"{where}.qas[{number}]: a question with 'id' and 'question' is expected.")


def _articles(file: TextIO, path: Path) -> Iterator[Any]:
    """Parse the elements of the list `data` one at a time."""
    decoder = json.JSONDecoder()
    text, size = "", CHUNK
    start = None
    while start is None:
        more = file.read(CHUNK)
        text = text[-KEY:] + more
        start = _DATA.search(text)
        if start is None and not more:
            raise DataError(f'{path}: SQuAD\'s JSON is expected, an object {{"data": [{{"paragraphs": …}}]}}.')
    text = text[start.end() :]
    while True:
        text = text[_separators(text) :]
        if text.startswith("]"):
            return
        try:
            article, end = decoder.raw_decode(text)
        except json.JSONDecodeError as error:
            more = file.read(size)
            if not more:
                raise DataError(f"{path}: not whole JSON ({error.msg}). Copy or download it again.") from None
            text, size = text + more, 2 * size  # doubled, so that a long article is parsed again only a few times
            continue
        except (RecursionError, ValueError) as error:
            raise DataError(f"{path}: not JSON that can be read ({error}).") from None
        yield article
        text, size = text[end:], CHUNK


def _separators(text: str) -> int:
    """Number of spaces and commas at the beginning of the text."""
    found = _SEPARATORS.match(text)
    return 0 if found is None else found.end()


def _rows(
    table: Iterable[dict[str, object]], path: Path, card: PackCard, layout: TableLayout, columns: Columns
) -> Iterator[Row]:
    text = layout.text if columns.text is None else columns.text
    pair = layout.pair if columns.text_pair is None else columns.text_pair
    key = layout.id if columns.id is None else columns.id
    for number, cells in enumerate(table):
        where = f"{path}: row {number + 1}"
        first = _text(cells, str(text), where)
        # files to predict often lack the id column that files for training have
        numbered = key is None or (columns.id is None and str(key) not in cells)
        row_id = str(number) if numbered else str(_cell(cells, str(key), where))
        if not takes_pairs(card) or pair is None:
            yield _row(row_id, first, where)
        else:
            yield _row(row_id, (first, _text(cells, str(pair), where)), where)


def _row(row_id: str, texts: str | tuple[str, str], where: str) -> Row:
    for text in (row_id, texts) if isinstance(texts, str) else (row_id, *texts):
        try:
            check_unicode(text)
        except ValueError as problem:
            raise DataError(f"{where}: {problem}.") from None
    return Row(row_id, texts)


def _cell(cells: dict[str, object], column: str, where: str) -> object:
    if column not in cells:
        raise DataError(f"{where}: {UnknownNameError('column', column, cells)} Name it: --text, --text-pair, --id")
    cell = cells[column]
    if cell is _REPEATED:
        raise DataError(f"{where}: several columns are called '{column}', one is expected. Rename all but one.")
    if cell is None or cell != cell:  # noqa: PLR0124 - NaN, which data frames write for missing values
        raise DataError(f"{where}: column '{column}' is empty, a value is expected. Fill it, or leave the row out.")
    return cell


def _text(cells: dict[str, object], column: str, where: str) -> str:
    cell = _cell(cells, column, where)
    if not isinstance(cell, str):
        raise DataError(f"{where}: column '{column}' holds {type(cell).__name__}, text is expected.")
    return cell


def _table(path: Path) -> Iterator[dict[str, object]]:
    """The rows of a JSON or Parquet table, which is read at once, as training data are."""
    table = read_table(path, delimiter=None, quoting=None, header=True)
    if table.bad:
        raise DataError(f"{table.bad[0]}.")
    for _, cells in table.rows:
        yield dict(zip(table.columns, cells, strict=True))


def _objects(file: TextIO, path: Path) -> Iterator[dict[str, object]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not JSON ({error}).") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}:{number}: an object is expected, got {type(row).__name__}.")
        yield row


def _cells(file: TextIO, path: Path, layout: TableLayout) -> Iterator[dict[str, object]]:
    """The rows of a CSV or TSV file as cells by column name; without a header, names are 0, 1, …."""
    sample = list(islice(file, SAMPLE_ROWS))
    csv.field_size_limit(sys.maxsize)  # a cell may hold a whole document
    delimiter, quoting = layout.delimiter, layout.quoting
    if delimiter == "\t" and format_of(path) == ".csv":
        delimiter = quoting = None  # the task's own files are TSV: their dialect does not hold here
    delimiter, quoting = detect_dialect("".join(sample), path, delimiter=delimiter, quoting=quoting)
    lines = chain(sample, file)
    split = _split_quoted(lines, path, delimiter) if quoting else _split_plain(lines, delimiter)
    names: list[str] = []
    repeated: dict[str, object] = {}
    for number, cells in split:
        if not names:
            names = cells if layout.header else [str(place) for place in range(len(cells))]
            repeated = {name: _REPEATED for name in names if names.count(name) > 1}
            if layout.header:
                continue
        if len(cells) != len(names):
            raise DataError(
                f"{path}:{number}: the row has {len(cells)} columns, expected {len(names)}. Mend or quote its cells."
            )
        yield dict(zip(names, cells, strict=True)) | repeated


def _split_plain(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of every line without quoting, as in training: but for line feeds, only delimiters split."""
    for number, line in enumerate(lines, start=1):
        content = line.removesuffix("\n").removesuffix("\r")
        if content:
            yield number, content.split(delimiter)


def _split_quoted(lines: Iterable[str], path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line and cells of every row, whose cells may be quoted."""
    # as in training, rows may also end with a carriage return alone
    parts = (part for line in lines for part in io.StringIO(line, newline=""))
    reader = csv.reader(parts, delimiter=delimiter, strict=True)
    number = 1
    try:
        for cells in reader:
            if cells:
                yield number, cells
            number = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{path}:{number}: broken quoting ({error}). Double the quote characters inside a quoted cell, or write "
            "the texts as JSONL."
        ) from None
