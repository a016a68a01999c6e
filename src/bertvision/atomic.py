"""Files and folders that are either whole or not there: made under another name, synced to the disk, then renamed."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertvision.errors import WriteError


def write_text(path: Path, text: str) -> None:
    """Write a text file as `whole_file` does; folders above it are made.

    Raises:
        WriteError: the file cannot be written (a file where a folder should be, no space, no permission).
    """
    with whole_file(path, parents=True) as made:
        made.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 - anything that JSON can hold
    """Write a JSON file, readable by people, as `write_text` does."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def part_of(place: Path) -> Path:
    """Where a file or folder is made before it is whole: always the same place, so that the next writer clears it."""
    return _beside(place, "part")


@contextmanager
def whole_file(path: Path, *, parents: bool = False, otherwise: str = "") -> Iterator[Path]:
    """A new file to write, which takes the place of an older one only when it is whole, and on the disk.

    Args:
        path: where it goes.
        parents: whether folders above it that are not there are made.
        otherwise: what to do where it cannot be written.

    Raises:
        WriteError: it cannot be written; nothing half-written is left, and an older file stays.
    """
    part = part_of(path)
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(
            parents=parents
        )  # in a folder of its own, since libraries put temporary files beside what they write
        made = part / path.name
        yield made
        made.chmod(part.stat().st_mode & 0o666)  # as the umask allows; safetensors writes for its owner alone
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
    """A new folder to fill, which takes the place of an older one only when it is whole, and on the disk.

    The older one is set aside and comes back if the new one cannot take its place; after a kill in between, when
    somebody writes there the next time.

    Args:
        folder: where it goes.
        what: it is, for the message.
        otherwise: what to do where it cannot be written.

    Raises:
        WriteError: it cannot be written, or is the working directory; nothing half-written is left, and the older one
            stays.
    """
    place = folder.resolve()
    if _is_worked_in(place):
        raise WriteError(f"{what} {folder}", "it is the working directory, or holds it", "Use another folder.")
    part, aside = part_of(place), _beside(place, "aside")
    try:
        _settle(place, aside)
        shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
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
        _settle(place, aside)
        shutil.rmtree(part, ignore_errors=True)


def _settle(place: Path, aside: Path) -> None:
    """Put back a folder that was set aside, or remove it where another one has taken its place."""
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
    named = place.resolve() if place.name in {"", ".."} else place  # `.` and `..` are no names
    return named.with_name(f".{named.name}.{ending}")


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk: otherwise a power cut could take back a file that was there already."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # so say file systems that cannot
            raise
    finally:
        os.close(handle)


def reason_of(error: Exception) -> str:
    """Why something cannot be written, without the path, which may be a temporary one."""
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
