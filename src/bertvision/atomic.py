"""A file or a folder is either whole or not there: written under a temporary name, then renamed."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertvision.errors import WriteError


def write_text(path: Path, text: str) -> None:
    """Write a text file, replacing an older one only when the new one is complete.

    Raises:
        WriteError: the file cannot be written (no such folder, no space, no permission).
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise WriteError(path, reason_of(error)) from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)  # mkstemp makes files for their owner alone
        Path(temporary).replace(path)
    except OSError as error:
        raise WriteError(path, reason_of(error)) from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 - anything that JSON can hold
    """Write a JSON file, readable by people, as `write_text` does."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def part_of(place: Path) -> Path:
    """Where a file or folder is made before it is whole: always the same place, so that the next one clears it."""
    return place.with_name(f".{place.name}.part")


@contextmanager
def whole_folder(folder: Path, what: str, *, otherwise: str) -> Iterator[Path]:
    """A new folder to fill, which takes the place of an older one only when it is whole, and on the disk.

    Args:
        folder: where it goes.
        what: it is, for the message.
        otherwise: what to do where it cannot be written.

    Raises:
        WriteError: it cannot be written; nothing half-written is left, and the older one stays.
    """
    part = part_of(folder)
    try:
        shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
        part.mkdir(parents=True)
        yield part
        sync_folder(part)
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
        sync_folder(folder.parent)
    except (OSError, WriteError) as error:
        reason = error.reason if isinstance(error, WriteError) else reason_of(error)
        raise WriteError(f"{what} {folder}", reason, otherwise) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk: a power cut could else take back a file that is there already."""
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
