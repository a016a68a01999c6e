"""Atomic writes of files and folders: written under a temporary name, synced to disk, then renamed."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bertvision.errors import WriteError


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically (see `whole_file`); missing parent folders are created.

    Raises:
        WriteError: the file cannot be written (a file where a folder should be, no space, no permission).
    """
    with whole_file(path, parents=True) as made:
        made.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 - anything that JSON can hold
    """Write an indented JSON file, as `write_text` does."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # in Python, surrogates stand for the bytes of a path that are not UTF-8: they are escaped
    write_text(path, text.encode(errors="backslashreplace").decode())


def part_of(place: Path) -> Path:
    """Temporary path at which `place` is written; always the same, so that the next writer removes a killed one's."""
    return _beside(place, "part")


@contextmanager
def whole_file(path: Path, *, parents: bool = False, otherwise: str = "") -> Iterator[Path]:
    """Context in which a file is written atomically: yields a temporary path, which is renamed to `path` at the end.

    Args:
        path: the final path; an existing file is replaced.
        parents: create missing parent folders.
        otherwise: advice for the error message.

    Raises:
        WriteError: the file cannot be written; an existing file stays as it was, and no partial one is left.
    """
    part = part_of(path)
    try:
        shutil.rmtree(part, ignore_errors=True)
        # a folder, since libraries may put temporary files of their own beside what they write
        part.mkdir(parents=parents)
        made = part / path.name
        yield made
        made.chmod(part.stat().st_mode & 0o666)  # as the umask allows; safetensors makes files that only we can read
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise WriteError(path, reason_of(error), otherwise) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def whole_folder(folder: Path, what: str, *, otherwise: str) -> Iterator[Path]:
    """Context in which a folder is written atomically: yields a temporary folder, which is renamed at the end.

    An existing folder is moved aside before the rename, and moved back if the rename fails. If the process is killed in
    between, the next write to the same folder moves it back first.

    Args:
        folder: the final path; an existing folder is replaced.
        what: noun for the folder in the error message.
        otherwise: advice for the error message.

    Raises:
        WriteError: the folder cannot be written, or it is or contains the working directory; an existing folder stays
            as it was, and no partial one is left.
    """
    place = folder.resolve()
    if _is_worked_in(place):
        raise WriteError(f"{what} {folder}", "it is the working directory, or holds it", "Use another folder.")
    part, aside = part_of(place), _beside(place, "aside")
    try:
        _settle(place, aside)
        shutil.rmtree(part, ignore_errors=True)  # left by a killed process
        part.mkdir(parents=True)
        yield part
        sync_folder(part)
        if place.is_dir():
            place.rename(aside)
        part.rename(place)
        sync_folder(place.parent)
    except (OSError, WriteError) as error:
        reason = error.reason if isinstance(error, WriteError) else reason_of(error)
        raise WriteError(f"{what} {folder}", reason, otherwise) from None
    finally:
        with suppress(OSError):  # what went wrong before is the error; the next write settles what is left
            _settle(place, aside)
        shutil.rmtree(part, ignore_errors=True)


def _settle(place: Path, aside: Path) -> None:
    """Move a folder back that was moved aside, or remove it if a new one has taken its place."""
    if place.exists():
        shutil.rmtree(aside, ignore_errors=True)
    elif aside.exists():
        aside.rename(place)


def _is_worked_in(folder: Path) -> bool:
    try:
        return Path.cwd().is_relative_to(folder)
    except FileNotFoundError:  # the working directory was removed
        return False


def _beside(place: Path, ending: str) -> Path:
    named = place.resolve() if place.name in {"", ".."} else place  # `.` and `..` stand for a folder with another name
    return named.with_name(f".{named.name}.{ending}")


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to disk: without that, a power cut may undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # from file systems that cannot sync folders
            raise
    finally:
        os.close(handle)


def reason_of(error: Exception) -> str:
    """An error's message without its path, which may be a temporary one."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
