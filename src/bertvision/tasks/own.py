"""The user's own files as a task: columns named on the command line, labels found in the data."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.errors import BertVisionError, DataError
from bertvision.tasks.files import read_json
from bertvision.tasks.squad import is_squad
from bertvision.tasks.tables import Table, format_of, read_table
from bertvision.tasks.task import SquadLayout, TableLayout, Task
from bertvision.tasks.texts import label_word

OWN = "own"
OWN_SUMMARY = "your own files: CSV, TSV, JSON, JSONL, Parquet, or JSON in SQuAD's form"
MOST_CLASSES = 50
"""Whole numbers of more different values than this are taken as scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnColumns:
    """How to read files of your own (task `own`)."""

    text: str | None = None
    """Column of the text (default: a column called 'text' or 'sentence')."""

    text_pair: str | None = None
    """Column of the second text, for pairs (default: a column called 'text_pair', if there is one)."""

    label: str | None = None
    """Column of the label or score (default: a column called 'label' or 'score')."""

    kind: Literal["labels", "scores"] | None = None
    """Whether the label column holds labels or scores (default: numbers with fractions are scores)."""

    delimiter: str | None = None
    """What separates the columns of a CSV or TSV file (default: found out)."""

    quoting: Literal["csv", "none"] | None = None
    """Whether "…" quotes a cell, as in CSV, or is plain text (default: found out)."""

    no_header: bool = False
    """The file has no header line; columns are called 0, 1, 2, …"""


def own_task(paths: Mapping[str, Path], columns: OwnColumns) -> Task:
    """A task made from the user's files: SQuAD's form gives spans, a table gives labels or scores.

    Args:
        paths: the file of each split; labels are taken from `train`, or from the first split without it.
        columns: which columns hold what.

    Raises:
        BertVisionError: a file cannot be read, or a column is not there.
    """
    path = paths.get("train") or next(iter(paths.values()))
    files = {split: (path.name,) for split, path in paths.items()}
    if format_of(path) == ".json" and is_squad(read_json(path)):
        return Task(
            name=OWN, kind="spans", summary=OWN_SUMMARY, layout=SquadLayout(), metrics=("f1", "exact"), files=files
        )
    quoting = None if columns.quoting is None else columns.quoting == "csv"
    delimiter = None if columns.delimiter is None else columns.delimiter.replace("\\t", "\t")
    if delimiter is not None and len(delimiter) != 1:
        raise BertVisionError(f"--delimiter is '{delimiter}', one character is expected, such as ',' or '\\t'.")
    table = read_table(path, delimiter=delimiter, quoting=quoting, header=not columns.no_header)
    layout = TableLayout(
        text=_column(table, columns.text, ("text", "sentence", "sentence1"), "--text"),
        pair=_optional_column(table, columns.text_pair, ("text_pair", "sentence2")),
        label=_column(table, columns.label, ("label", "score"), "--label"),
        header=not columns.no_header,
        delimiter=delimiter,
        quoting=quoting,
    )
    words = _label_words(table, layout.label)
    kind = columns.kind or _guess_kind(words)
    if kind == "scores":
        return Task(
            name=OWN,
            kind="scores",
            summary=OWN_SUMMARY,
            layout=layout,
            metrics=("pearson", "spearman", "mse"),
            files=files,
        )
    if len(words) < 2:
        raise DataError(f"{path}: column '{layout.label}' has one label only, {words}. Two or more are expected.")
    return Task(
        name=OWN,
        kind="labels",
        summary=OWN_SUMMARY,
        layout=layout,
        labels=tuple(words),
        metrics=("accuracy", "f1", "matthews"),
        files=files,
    )


def _column(table: Table, given: str | None, usual: tuple[str, ...], option: str) -> str:
    if given is not None:
        return table.columns[table.index(given)]
    for name in usual:
        if name in table.columns:
            return name
    raise DataError(f"{table.path}: say which column to take with {option}. Columns: {', '.join(table.columns)}.")


def _optional_column(table: Table, given: str | None, usual: tuple[str, ...]) -> str | None:
    if given is not None:
        return table.columns[table.index(given)]
    return next((name for name in usual if name in table.columns), None)


def _label_words(table: Table, column: str | int) -> list[str]:
    """Every label once, numbers in the order of their values, words in alphabetical order."""
    at = table.index(column)
    words = set()
    for _, cells in table.rows:
        try:
            words.add(label_word(cells[at]))
        except ValueError:
            continue  # an empty label: reported with its line when the examples are read
    if not words:
        raise DataError(f"{table.path}: column '{column}' is empty. Labels or scores are expected.")
    numbers = {word: _number(word) for word in words}
    if None not in numbers.values():
        return sorted(words, key=lambda word: (numbers[word] or 0.0, word))
    return sorted(words)


def _guess_kind(words: list[str]) -> Literal["labels", "scores"]:
    numbers = [_number(word) for word in words]
    if None in numbers:
        return "labels"
    fractions = any(number is not None and not number.is_integer() for number in numbers)
    return "scores" if fractions or len(words) > MOST_CLASSES else "labels"


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
