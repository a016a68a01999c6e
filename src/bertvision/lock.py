"""lock_folder: one process at a time works in a folder; a process that died holds nobody up."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bertvision.errors import BertVisionError

LOCK = ".lock"


@contextmanager
def lock_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep a folder for this process; it is made if need be, and gone again if nothing was put into it.

    The system lets go of the lock when its process ends, however it ends: a file that a killed process left behind
    says nothing.

    Args:
        folder: which.
        wait: wait until no other process has it, instead of raising.

    Raises:
        BertVisionError: another process works in it, or it cannot be written.
    """
    path = folder / LOCK
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _lock(path, wait=wait)
    except BlockingIOError:
        raise BertVisionError(
            f"{folder} is in use by another process{_holder(path)}. Wait for its end, or use another folder."
        ) from None
    except OSError as error:
        raise BertVisionError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is let go, so that it cannot be another process's
        os.close(handle)
        if made:
            with suppress(OSError):  # nothing was put into it
                folder.rmdir()


def _lock(path: Path, *, wait: bool) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink:  # else its last holder removed it after we had opened it
                os.ftruncate(handle, 0)
                os.write(handle, f" ({os.getpid()} on {socket.gethostname()})".encode())
                return handle
        except OSError:
            os.close(handle)
            raise
        os.close(handle)


def _holder(path: Path) -> str:
    """Who has it, as far as can be known."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
