"""own_task: the user's own files as a task; columns are found by options or usual names, labels in the data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.errors import BertVisionError, DataError
from bertvision.tasks.files import BadRow, describe_bad_rows, read_json
from bertvision.tasks.squad import is_squad
from bertvision.tasks.tables import Table, format_of, read_table
from bertvision.tasks.task import SquadLayout, TableLayout, Task, TaskKind
from bertvision.tasks.texts import label_word, tag_words

OWN = "own"
OWN_SUMMARY = "your own files: CSV, TSV, JSON, JSONL, Parquet, or JSON in SQuAD's form"
OWN_METRICS: dict[TaskKind, tuple[str, ...]] = {
    "spans": ("f1", "exact"),
    "labels": ("accuracy", "f1", "matthews"),
    "tags": ("micro_f1", "macro_f1", "subset_accuracy"),
    "scores": ("pearson", "spearman", "mse"),
}
"""Metrics of the user's own files by kind, the main metric first."""

SHOWN = 40
"""Longest column name in messages: in a file without a header, a whole text may be taken for a name."""

MOST_CLASSES = 50
"""If a label column has more different whole numbers than this, they are taken for scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnColumns:
    """How to read your own files (task `own`)."""

    text: str | None = None
    """Column of the text (default: a column called 'text', 'sentence' or 'sentence1')."""

    text_pair: str | None = None
    """Column of the second text, for pairs (default: a column called 'text_pair' or 'sentence2', if there is one)."""

    label: str | None = None
    """Column of the label, labels or score (default: a column called 'label', 'score', 'labels' or 'tags')."""

    kind: Literal["labels", "tags", "scores"] | None = None
    """What the label column holds: one label per text, tags (any number of labels per text), or scores (default: lists
    are tags; numbers with fractions, or of more than 50 different values, are scores)."""

    separator: str | None = None
    """Separator between the labels of a text in CSV and TSV, such as ';'; the column then holds tags. Lists in JSON,
    JSONL and Parquet need none."""

    delimiter: str | None = None
    """Delimiter between the columns of a CSV or TSV file (default: detected)."""

    quoting: Literal["csv", "none"] | None = None
    """Whether "…" quotes a cell, as in CSV, or is plain text (default: detected)."""

    no_header: bool = False
    """The file has no header line; columns are called 0, 1, 2, …"""


def own_task(paths: Mapping[str, Path], columns: OwnColumns) -> Task:
    """Define a task by the user's files: SQuAD's JSON gives spans, a table gives labels, tags or scores.

    Args:
        paths: the file of each split; kind and labels are found in `train`, or in the first split if there is no train.
        columns: names of the columns, and how to read them.

    Raises:
        BertVisionError: the file cannot be read, a column is missing, or its content does not fit the options.
    """
    path = paths.get("train") or next(iter(paths.values()))
    files = {split: (path.name,) for split, path in paths.items()}
    if format_of(path) == ".json" and is_squad(read_json(path)):
        return Task(
            name=OWN, kind="spans", summary=OWN_SUMMARY, layout=SquadLayout(), metrics=OWN_METRICS["spans"], files=files
        )
    delimiter, quoting = _dialect(columns)
    table = read_table(path, delimiter=delimiter, quoting=quoting, header=not columns.no_header)
    if not table.rows and not table.bad:
        raise DataError(
            f"{path} has columns ({', '.join(table.columns)}) and no rows. Rows with examples are expected."
        )
    layout = TableLayout(
        text=_column(table, columns.text, ("text", "sentence", "sentence1"), "--text"),
        pair=_optional_column(table, columns.text_pair, ("text_pair", "sentence2")),
        label=_column(table, columns.label, ("label", "score", "labels", "tags"), "--label"),
        header=not columns.no_header,
        delimiter=delimiter,
        quoting=quoting,
    )
    cells = [cells[table.index(layout.label)] for _, cells in table.rows]
    _check_separator(columns, cells, f"{path}: column '{layout.label}'")
    several = columns.kind == "tags" or (columns.kind is None and (columns.separator is not None or _has_lists(cells)))
    words, bad = _label_words(table, layout.label, columns.separator, several=several)
    kind = "tags" if several else columns.kind or _guess_kind(words)
    if len(words) < (2 if kind == "labels" else 1):
        found = (
            f"has one label only, {words}. Two or more" if words else "has no label that can be read. Labels or scores"
        )
        unread = f"\nRows that could not be read:\n{describe_bad_rows(bad)}" if bad else ""
        raise DataError(f"{path}: column '{layout.label}' {found} are expected.{unread}")
    return Task(
        name=OWN,
        kind=kind,
        summary=OWN_SUMMARY,
        layout=layout,
        labels=() if kind == "scores" else tuple(words),
        separator=columns.separator,
        metrics=OWN_METRICS[kind],
        files=files,
    )


def _dialect(columns: OwnColumns) -> tuple[str | None, bool | None]:
    """Delimiter, and whether "…" quotes a cell; None where they are to be detected."""
    delimiter = None if columns.delimiter is None else columns.delimiter.replace("\\t", "\t")
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise BertVisionError(
            f"--delimiter is {delimiter!r}, one character is expected, such as ',' or '\\t', no quote and no line end."
        )
    return delimiter, None if columns.quoting is None else columns.quoting == "csv"


def _column(table: Table, given: str | None, usual: tuple[str, ...], option: str) -> str:
    """Name of a column: the given one, else the first of the usual names that the table has."""
    if given is not None:
        return table.columns[table.index(given)]
    for name in usual:
        if name in table.columns:
            return name
    known = ", ".join(name if len(name) <= SHOWN else f"{name[:SHOWN]}…" for name in table.columns)
    with_header = format_of(table.path) in (".csv", ".tsv") and table.columns[0] != "0"  # without one they are numbered
    hint = " If that is the first example, and no header: --no-header" if with_header else ""
    raise DataError(f"{table.path}: say which column to take with {option}. Columns: {known}.{hint}")


def _optional_column(table: Table, given: str | None, usual: tuple[str, ...]) -> str | None:
    if given is not None:
        return table.columns[table.index(given)]
    return next((name for name in usual if name in table.columns), None)


def _check_separator(columns: OwnColumns, cells: Sequence[object], where: str) -> None:
    """Refuse an empty or needless separator, and cells of text for tags without a separator."""
    if columns.separator == "":
        raise BertVisionError("--separator is empty. Expected what stands between the labels of a text, such as ';'.")
    if columns.separator is not None and columns.kind not in (None, "tags"):
        raise BertVisionError(f"--separator is for texts with several labels, not for --kind {columns.kind}.")
    if columns.kind == "tags" and columns.separator is None and not _has_lists(cells):
        raise DataError(f"{where} holds no lists. Say what stands between labels, such as --separator ';'")


def _has_lists(cells: Sequence[object]) -> bool:
    return any(isinstance(cell, list) for cell in cells)


def _label_words(
    table: Table, column: str | int, separator: str | None, *, several: bool
) -> tuple[list[str], list[BadRow]]:
    """The different labels, sorted by value if all are finite numbers, else alphabetically; and the rows without any.

    These are also reported when the examples are read.
    """
    words: set[str] = set()
    bad = list(table.bad)
    place = table.index(column)
    for line, cells in table.rows:
        try:
            words.update(tag_words(cells[place], separator) if several else [label_word(cells[place])])
        except ValueError as problem:
            bad.append(BadRow(table.where(line), str(problem)))
    numbers = {word: number_of(word) for word in words}
    if all(number is not None and math.isfinite(number) for number in numbers.values()):
        return sorted(words, key=lambda word: (numbers[word] or 0.0, word)), bad
    return sorted(words), bad  # with a 'nan' among numbers, sorting by value would not give the same order every time


def _guess_kind(words: list[str]) -> Literal["labels", "scores"]:
    numbers = [number_of(word) for word in words]
    if None in numbers:
        return "labels"
    fractions = any(
        number is not None and math.isfinite(number) and not number.is_integer()  # 'nan' and 'inf' decide nothing
        for number in numbers
    )
    return "scores" if fractions or len(words) > MOST_CLASSES else "labels"


def number_of(word: str) -> float | None:
    """The value of a label that is a number; None for a word."""
    try:
        return float(word)
    except ValueError:
        return None
