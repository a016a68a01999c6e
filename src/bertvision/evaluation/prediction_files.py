"""Predictions from files: SQuAD's JSON, GLUE's submission tables, or one answer per line."""

import json
import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bertvision.errors import DataError
from bertvision.tasks.examples import FloatArray, IntArray, Target, target_array
from bertvision.tasks.files import read_json, read_text
from bertvision.tasks.tables import read_table
from bertvision.tasks.task import Task
from bertvision.tasks.texts import parse_target

SURE = 1e6
"""No-answer value of a question whose context has no legal answer: above all scores, but finite, as files require."""

_VALUE_COLUMNS = ("prediction", "label", "score")
_ID_COLUMNS = ("index", "id")


def read_answers(path: Path) -> dict[str, str]:
    """SQuAD predictions: a JSON object of answer texts by question id, "" for no answer.

    Raises:
        DataError: the file has another form.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataError(f'{path}: an object {{"question id": "answer"}} is expected, got {_kind(content)}.')
    for key, value in content.items():
        if not isinstance(value, str):
            raise DataError(f"{path}: the answer to '{key}' is {_kind(value)}, text is expected (\"\" for no answer).")
    return content


def read_no_answer(path: Path) -> dict[str, float]:
    """No-answer values: a JSON object of numbers by question id.

    Raises:
        DataError: the file has another form.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataError(f'{path}: an object {{"question id": number}} is expected, got {_kind(content)}.')
    for key, value in content.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
            raise DataError(f"{path}: the value of '{key}' is {value!r}, a finite number is expected.")
    return {key: float(value) for key, value in content.items()}


def read_targets(path: Path, task: Task, ids: Sequence[str]) -> IntArray | FloatArray:
    """Predicted class numbers, tags or scores in the order of the gold rows' ids.

    The file is a JSON object by id, a JSON list, a table with columns such as `index` and `prediction`, or has one
    prediction per line. Tags are lists, in the cell of a table as JSON, or text if the task has a separator.

    Raises:
        DataError: the file has another form, or not one valid prediction for every id.
    """
    cells = _read_cells(path, task)
    if isinstance(cells, list):
        if len(cells) != len(ids):
            raise DataError(f"{path} has {len(cells):,} predictions, the gold file {len(ids):,} rows. Same order?")
        cells = dict(zip(ids, cells, strict=True))
    missing = [key for key in ids if key not in cells]
    if missing:
        raise DataError(
            f"{path}: {len(missing):,} of {len(ids):,} rows have no prediction, first id '{missing[0]}'. "
            "Is it for another file?"
        )
    values = []
    for key in ids:
        try:
            values.append(_parse(task, cells[key]))
        except ValueError as problem:
            raise DataError(f"{path}: prediction of id '{key}': {problem}.") from None
    return target_array(task.kind, values)


def _parse(task: Task, cell: object) -> Target:
    """A label by name, or by class number unless names are numbers; tags; or a score, also outside the task's range."""
    word = str(cell).strip()
    no_numbers = task.kind == "labels" and not any(map(_is_number, task.labels))
    if no_numbers and word.isdecimal() and int(word) < len(task.labels):
        return int(word)
    if task.kind == "tags" and isinstance(cell, str) and word.startswith("["):
        with suppress(json.JSONDecodeError):  # a label may begin with a bracket, too
            cell = json.loads(word)
    if task.kind == "scores":
        value = float(word)
        if not math.isfinite(value):
            raise ValueError(f"score '{word}' is not finite")
        return value
    return parse_target(task, cell)


def _read_cells(path: Path, task: Task) -> list[object] | dict[str, object]:
    name = path.name.removesuffix(".gz")
    if name.endswith(".json"):
        content = read_json(path)
        if not isinstance(content, dict | list):
            raise DataError(f"{path}: a list of predictions or an object by id is expected, got {_kind(content)}.")
        return content
    parquet = name.endswith(".parquet")  # no text, and its columns always have names
    content = "" if parquet else read_text(path)
    # without a label, tags are a blank line, which may well be the last one
    lines = (content.removesuffix("\n") if task.kind == "tags" else content.rstrip()).split("\n")
    named = name.endswith((".tsv", ".csv", ".jsonl")) and any(column in lines[0] for column in _VALUE_COLUMNS)
    if parquet or named:
        table = read_table(path, delimiter=None, quoting=None, header=True)
        if table.bad:
            raise DataError(f"{table.bad[0]}.")
        value_at = next((table.index(column) for column in _VALUE_COLUMNS if column in table.columns), None)
        if value_at is None:
            raise DataError(f"{path}: a column called {' or '.join(_VALUE_COLUMNS)} is expected, got {table.columns}.")
        id_at = next((table.index(column) for column in _ID_COLUMNS if column in table.columns), None)
        if id_at is None:
            return [cells[value_at] for _, cells in table.rows]
        by_id = {str(cells[id_at]): cells[value_at] for _, cells in table.rows}
        if len(by_id) < len(table.rows):
            raise DataError(f"{path}: {len(table.rows) - len(by_id):,} ids stand there twice. Expected each once.")
        return by_id
    return [line.strip() for line in lines]


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _kind(value: object) -> str:
    return {dict: "an object", list: "a list", str: "text", type(None): "null"}.get(type(value), f"{value!r}")
