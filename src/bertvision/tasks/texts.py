"""Rows of a table → texts with labels, tags or scores."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from bertvision.errors import DataError
from bertvision.tasks.examples import Target, Texts, target_array
from bertvision.tasks.files import BadRow, check_unicode
from bertvision.tasks.tables import Table, read_table
from bertvision.tasks.task import TableLayout, Task


def read_texts(task: Task, layout: TableLayout, path: Path) -> tuple[Texts, list[BadRow]]:
    """The examples of a file, and the rows that could not be read."""
    table = read_table(path, delimiter=layout.delimiter, quoting=layout.quoting, header=layout.header)
    return texts_from_table(task, layout, table)


def texts_from_table(task: Task, layout: TableLayout, table: Table) -> tuple[Texts, list[BadRow]]:
    """The examples of a table, and the rows that are bad or whose cells do not fit the task."""
    text_at = table.index(layout.text)
    pair_at = None if layout.pair is None else table.index(layout.pair)
    label_at = _label_index(table, layout.label)
    id_at = None if layout.id is None else table.index(layout.id)

    ids: dict[str, int] = {}  # id → line, in order
    texts, pairs, targets = [], [], []
    bad = list(table.bad)
    for number, (line, cells) in enumerate(table.rows):
        try:
            text, pair = _texts(cells[text_at], "" if pair_at is None else cells[pair_at], layout)
            target = parse_target(task, cells[label_at])
            key = _new_id(number if id_at is None else cells[id_at], ids)
        except ValueError as problem:
            bad.append(BadRow(table.where(line), str(problem)))
            continue
        ids[key] = line
        texts.append(text)
        pairs.append(pair)
        targets.append(target)
    return Texts(
        ids=list(ids),
        texts=texts,
        pairs=None if pair_at is None else pairs,
        targets=target_array(task.kind, targets),
    ), bad


def _label_index(table: Table, column: str | int) -> int:
    try:
        return table.index(column)
    except DataError as error:
        if str(column) in table.columns:  # it is there twice
            raise
        raise DataError(f"{error} Texts without labels are for `bertvision predict`: keep them apart.") from None


def parse_target(task: Task, cell: object) -> Target:
    """Convert a cell to the target of a text: class number, tags or score.

    Raises:
        ValueError: the cell is not a label of the task, not a list of labels, or not a score within the limits.
    """
    match task.kind:
        case "labels":
            return _parse_label(cell, task.labels)
        case "tags":
            tags = [0] * len(task.labels)
            for word in tag_words(cell, task.separator):
                tags[_parse_label(word, task.labels)] = 1
            return tuple(tags)
        case "scores":
            return _parse_score(cell, task.limits)
        case "spans":
            raise AssertionError("answers in a text are no cells")
        case _:
            assert_never(task.kind)


def label_word(cell: object) -> str:
    """A label as a string; 1.0 becomes '1', since some files hold class numbers as floats, and True becomes '1', too.

    Raises:
        ValueError: the cell is empty, holds several values, or half of a surrogate pair.
    """
    missing = isinstance(cell, float) and math.isnan(cell)  # as data frames represent a missing value
    if missing or cell is None or (isinstance(cell, str) and not cell.strip()):
        raise ValueError("the label is empty")
    if isinstance(cell, list | dict):
        raise ValueError(f"the label is {cell}, one word or number is expected")  # noqa: TRY004 - a bad row
    if isinstance(cell, bool):
        return str(int(cell))
    word = str(cell).strip()
    check_unicode(word)
    if word.endswith(".0") and word[:-2].lstrip("-").isdigit():
        return word[:-2]
    return word


def tag_words(cell: object, separator: str | None) -> list[str]:
    """The labels of a text, from a list or from text with a separator; an empty list or text means no label.

    Raises:
        ValueError: the cell is neither, or a label in it is empty.
    """
    if isinstance(cell, str) and separator is not None:
        cell = cell.split(separator) if cell.strip() else []
    if not isinstance(cell, list):
        problem = "there are no labels" if cell is None else f"the labels are {cell!r}"
        splits = "" if separator is not None else "; --separator splits text"
        raise ValueError(f"{problem}, a list is expected ([] for none{splits})")  # noqa: TRY004 - a bad row
    return [label_word(word) for word in cell]


def _parse_label(cell: object, labels: tuple[str, ...]) -> int:
    word = label_word(cell)
    try:
        return labels.index(word)
    except ValueError:
        raise ValueError(f"label '{word}' is not one of {', '.join(labels)}") from None


def _parse_score(cell: object, limits: tuple[float, float] | None) -> float:
    try:
        score = float(str(cell))
    except ValueError:
        raise ValueError(f"score '{cell}' is not a number") from None
    if not math.isfinite(score):
        raise ValueError(f"score '{cell}' is not finite")
    if limits is not None and not limits[0] <= score <= limits[1]:
        raise ValueError(f"score {score:g} is outside {limits[0]:g} to {limits[1]:g}")
    return score


def _texts(text: object, pair: object, layout: TableLayout) -> tuple[str, str]:
    """Both cells, checked to be text and not both empty; raises ValueError with the problem."""
    for cell, column in ((text, layout.text), (pair, layout.pair)):
        if cell is None:
            raise ValueError(f"column '{column}' is missing")
        if not isinstance(cell, str):
            raise ValueError(f"column '{column}' holds {type(cell).__name__}, text is expected")  # noqa: TRY004 - a bad row
        check_unicode(cell)
    if not str(text).strip() and not str(pair).strip():
        raise ValueError("the text is empty")
    return str(text), str(pair)


def _new_id(cell: object, seen: Mapping[str, int]) -> str:
    key = str(cell)
    check_unicode(key)
    if key in seen:
        raise ValueError(f"id '{key}' stands at line {seen[key]} already")
    return key
