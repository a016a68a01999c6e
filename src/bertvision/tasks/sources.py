"""Find the files of a task: a local folder in the official layout, a single file, or the built-in sets."""

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from bertvision.errors import DataError
from bertvision.tasks.tables import TABLE_FORMATS, find_format
from bertvision.tasks.task import SquadLayout, TableLayout, Task

BUILTIN_FOLDER = Path(__file__).parent / "builtin"
BUILTIN_LAYOUT: dict[str, SquadLayout | TableLayout] = {
    "qa": SquadLayout(),
    "sentiment2": TableLayout(text="text", label="label"),
    "sentiment5": TableLayout(text="text", label="label"),
    "paraphrase": TableLayout(text="text", pair="text_pair", label="label"),
    "similarity": TableLayout(text="text", pair="text_pair", label="score"),
}
"""Layout of the files of each built-in set, by folder."""

_OWN_SPLITS = {"train": ("train",), "dev": ("dev", "valid", "validation"), "test": ("test",)}


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The files of a task.

    Attributes:
        layout: their format.
        paths: the file of each split that was found.
        missing: for each split that was not found, the file names that were looked for.
    """

    layout: SquadLayout | TableLayout
    paths: dict[str, Path]
    missing: dict[str, tuple[str, ...]]


def find_builtin(task: Task) -> TaskFiles:
    """The files of the built-in set that stands in for the task.

    Raises:
        DataError: there is no built-in set for the task.
    """
    if task.builtin is None:
        raise DataError(f"there is no built-in set for {task.name}. Name a folder: {describe_files(task)}")
    folder = BUILTIN_FOLDER / task.builtin
    suffix = ".json" if task.builtin == "qa" else ".tsv"
    return TaskFiles(
        BUILTIN_LAYOUT[task.builtin], {split: folder / f"{split}{suffix}" for split in ("train", "dev")}, {}
    )


def find_local(task: Task, data: Path) -> TaskFiles:
    """The files of a task: those with official names in the folder `data` or its subfolders, or the file `data`.

    Raises:
        DataError: there is no such file; the message lists the names that were looked for.
    """
    if not is_there(data):
        raise DataError(f"{data} does not exist. Expected: {describe_files(task)}")
    if data.is_file():
        return TaskFiles(task.layout, {split_of(data, task): data}, {})
    for folder in (data, *(data / name for name in task.folders), *(data / "glue" / name for name in task.folders)):
        paths = {}
        for split, names in task.files.items():
            candidates = [folder / (name + ending) for name in names for ending in ("", ".gz")]
            path = next((path for path in candidates if path.is_file()), None)
            if path is not None:
                paths[split] = path
        if paths:
            return TaskFiles(
                task.layout, paths, {split: names for split, names in task.files.items() if split not in paths}
            )
    raise DataError(f"{data} holds no file of {task.name}. Expected: {describe_files(task)}")


def find_own(data: Path) -> dict[str, Path]:
    """The user's own files: one file, or a folder with train, dev (valid, validation) and test files.

    Raises:
        DataError: there is no such file, or two files have names of the same split.
    """
    if is_there(data) and data.is_file():
        return {split_of(data, None): data}
    if not data.is_dir():
        problem = "is neither a file nor a folder" if data.exists() else "does not exist"
        raise DataError(f"{data} {problem}. A file, or a folder with train and dev files, is expected.")
    files = [path for path in sorted(data.iterdir()) if find_format(path) is not None]
    paths = {}
    for split, stems in _OWN_SPLITS.items():
        matches = [path for path in files if path.name.split(".", 1)[0].lower() in stems]
        if len(matches) > 1:
            raise DataError(f"{data}: {' and '.join(p.name for p in matches)} could both be {split}. Leave one there.")
        if matches:
            paths[split] = matches[0]
    if not paths:
        raise DataError(
            f"{data} holds no file called train, dev or test with one of the endings {', '.join(TABLE_FORMATS)}."
        )
    return paths


def split_of(path: Path, task: Task | None) -> str:
    """The split of a single file, guessed from its name; `train` if the name names none."""
    name = path.name.removesuffix(".gz")
    for split, names in task.files.items() if task else ():
        if name in names:
            return split
    words = re.split(r"[\W\d_]+", name.split(".", 1)[0].lower())  # whole words: "latest" is not "test"
    for split in ("dev", "test"):
        if any(word in words for word in _OWN_SPLITS[split]):
            return split
    return "train"


def is_there(data: Path) -> bool:
    """Whether a file or a folder exists.

    Raises:
        DataError: the system cannot tell (no permission, or a name that is too long), or the folder cannot be read.
    """
    try:
        if data.is_dir() and not os.access(data, os.R_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return data.exists()
    except OSError as error:
        raise DataError(f"{data} cannot be read: {error.strerror}.") from None


def describe_files(task: Task) -> str:
    """The option `--data` with the official file names of the task, for messages."""
    folder = task.folders[0] if task.folders else task.name
    names = ", ".join(f"{folder}/{names[0]}" for names in task.files.values())
    return f"--data DIR with {names} (plain or .gz)."
