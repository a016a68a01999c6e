"""load_task: the examples of a task, by its name and the place of its data; rows that cannot be read are reported."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

from bertvision.errors import BertVisionError, DataError, UnknownNameError
from bertvision.tasks.examples import Examples, Questions
from bertvision.tasks.files import BadRow, describe_bad_rows
from bertvision.tasks.glue import GLUE_TASKS
from bertvision.tasks.hub import read_hub
from bertvision.tasks.own import OWN, OwnColumns, own_task
from bertvision.tasks.own_notices import own_notices
from bertvision.tasks.sentences import SENTENCE_TASKS
from bertvision.tasks.sources import TaskFiles, find_builtin, find_local, find_own
from bertvision.tasks.squad import SQUAD_TASKS, read_questions
from bertvision.tasks.task import SquadLayout, TableLayout, Task
from bertvision.tasks.texts import read_texts

TASKS: dict[str, Task] = {task.name: task for task in (*SQUAD_TASKS, *GLUE_TASKS, *SENTENCE_TASKS)}
"""Every task by name, except `own`, which `own_task` makes from the user's files."""

BUILTIN, HUB = "builtin", "hub"


@dataclass(frozen=True, slots=True)
class TaskData:
    """A task with its examples.

    Attributes:
        task: definition of the task.
        splits: the examples of each split that was found.
        bad: the unreadable rows of each split, which were skipped.
        notices: warnings for the user: missing splits, unexpected sizes, skipped rows, examples that are also in train.
    """

    task: Task
    splits: dict[str, Examples]
    bad: dict[str, list[BadRow]]
    notices: tuple[str, ...]


def load_task(
    name: str, *, data: str | Path | None = None, columns: OwnColumns | None = None, skip_bad: bool = False
) -> TaskData:
    """Load every split of a task.

    Args:
        name: a key of `TASKS`, or `own`.
        data: a folder or file; `hub` or `hub:NAME`; `builtin`. None takes the built-in set.
        columns: for `own`, the names of the columns, and how to read them.
        skip_bad: leave unreadable rows out, with a notice, instead of raising.

    Raises:
        UnknownNameError: there is no such task.
        DataError: the data are missing, rows are unreadable and `skip_bad` is not set, or no row is left.
        BertVisionError: as `find_task`.

    Example:
        >>> from bertvision import load_task
        >>> sentiment = load_task("sst5", data="builtin")
        >>> sentiment.task.labels
        ('0', '1', '2', '3', '4')
    """
    task = find_task(name, data=data, columns=columns)
    read, notices = _read(task, data)
    bad = {split: rows for split, (_, rows) in read.items()}
    _check_bad_rows(bad, notices, skip_bad=skip_bad)
    splits = {split: examples for split, (examples, _) in read.items()}
    for split, examples in splits.items():
        if not len(examples):
            problems = f"no readable row is left in {data}.\n{describe_bad_rows(bad[split])}"
            raise DataError(f"{task.name} {split}: {problems.rstrip()}")
    if name == OWN:
        notices += own_notices(task, columns or OwnColumns(), splits)
    if data not in (None, BUILTIN):
        notices += [*_unexpected_sizes(task, splits), *_also_in_train(task, splits)]
    return TaskData(task, splits, bad, tuple(notices))


def find_task(name: str, *, data: str | Path | None = None, columns: OwnColumns | None = None) -> Task:
    """The definition of a task without its examples; only `own` reads files, to find the labels.

    Raises:
        UnknownNameError: there is no such task.
        BertVisionError: the user's own files cannot be read, or `columns` are given for another task than `own`.
    """
    check_task_name(name)
    if name == OWN:
        return own_task(_own_paths(data), columns or OwnColumns())
    if columns is not None and columns != OwnColumns():
        raise BertVisionError(f"columns can be named for the task '{OWN}' only; the files of {name} have fixed ones.")
    return TASKS[name]


def check_task_name(name: str) -> None:
    """Check that there is a task with this name.

    Raises:
        UnknownNameError: there is none; the message suggests the nearest name.
    """
    if name != OWN and name not in TASKS:
        raise UnknownNameError("task", name, [*TASKS, OWN])


def is_path(data: str | Path | None) -> bool:
    """Whether `--data` means files of the user's, rather than the built-in set or the hub."""
    return data is not None and str(data).partition(":")[0] not in (BUILTIN, HUB)


Read = dict[str, tuple[Examples, list[BadRow]]]
"""Examples and unreadable rows, by split."""


def _own_paths(data: str | Path | None) -> dict[str, Path]:
    if data is None or not is_path(data):
        raise BertVisionError(f"the task '{OWN}' needs --data FILE or --data DIR with your files.")
    return find_own(Path(data))


def _read(task: Task, data: str | Path | None) -> tuple[Read, list[str]]:
    """All splits of a task, and notices about missing splits and the use of the built-in set."""
    name = task.name
    if name == OWN:
        return _read_files(task, TaskFiles(task.layout, _own_paths(data), {})), []
    place, _, hub_path = str(data).partition(":")
    if place == HUB:
        read = read_hub(task, hub_path or None)
        return read, [f"{name} has no {split} split on the hub." for split in task.files if split not in read]
    found = find_builtin(task) if data in (None, BUILTIN) else find_local(task, Path(str(data)))
    notices = [f"{name} has no {split} split here (looked for {names[0]})." for split, names in found.missing.items()]
    if data is None:
        notices.append(f"{name}: the small built-in set is used; --data DIR takes yours, --data hub the hub's.")
    return _read_files(task, found), notices


def _read_files(task: Task, found: TaskFiles) -> Read:
    read: Read = {}
    for split, path in found.paths.items():
        match found.layout:
            case SquadLayout():
                read[split] = read_questions(found.layout, path)
            case TableLayout():
                read[split] = read_texts(replace(task, layout=found.layout), found.layout, path)
    return read


def _check_bad_rows(bad: dict[str, list[BadRow]], notices: list[str], *, skip_bad: bool) -> None:
    rows = [row for split_rows in bad.values() for row in split_rows]
    if rows and not skip_bad:
        raise DataError(
            f"{len(rows):,} bad row{'s' if len(rows) > 1 else ''}:\n{describe_bad_rows(rows)}\n"
            "Mend the file, or leave such rows out with --skip-bad."
        )
    if rows:
        notices.append(f"{len(rows):,} bad row{'s' if len(rows) > 1 else ''} skipped:\n{describe_bad_rows(rows)}")


def _unexpected_sizes(task: Task, splits: dict[str, Examples]) -> list[str]:
    return [
        f"{task.name} {split} has {len(examples):,} rows here; the official file has {task.rows[split]:,}."
        for split, examples in splits.items()
        if split in task.rows and len(examples) != task.rows[split]
    ]


def _also_in_train(task: Task, splits: dict[str, Examples]) -> list[str]:
    """Notices about splits with examples that are also in the training split, so that scores on them are too high."""
    if "train" not in splits:
        return []
    train_inputs = set(_inputs(splits["train"]))
    notices = []
    for split, examples in splits.items():
        shared = [key for key, content in zip(examples.ids, _inputs(examples), strict=True) if content in train_inputs]
        if split != "train" and shared:
            notices.append(
                f"{task.name}: {len(shared):,} of {len(examples):,} {split} examples stand in train, too, first id "
                f"'{shared[0]}': scores on {split} are the better for it. In data of your own, leave them out of one."
            )
    return notices


def _inputs(examples: Examples) -> Iterator[tuple[str, str | None]]:
    """The input of each example: its text and second text (None for single texts), or its question and context."""
    if isinstance(examples, Questions):
        contexts = (examples.contexts[number] for number in examples.context_index.tolist())
        return zip(examples.questions, contexts, strict=True)
    return zip(examples.texts, examples.pairs or repeat(None, len(examples)), strict=True)
