"""lock_folder: exclusive use of a folder by one process; the lock ends with its process."""

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
    """Context in which no other process can lock the same folder.

    The folder is created if it does not exist, and then removed at the end if nothing was written into it. The lock is
    an `flock`, which the system releases however the process ends, so that a lock file left by a killed process locks
    nothing.

    Args:
        folder: the folder to lock.
        wait: wait until it is free, instead of raising.

    Raises:
        BertVisionError: another process has locked the folder, or the lock file cannot be written.
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
        raise BertVisionError(f"{path} cannot be written: {error.strerror}. Use another folder.") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before the release: afterwards the file could be another process's lock
        os.close(handle)
        if made:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _lock(path: Path, *, wait: bool) -> int:
    """Open and lock the file, and write our process into it; returns the file descriptor."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_nlink:  # 0: its last holder removed it after we had opened it, so try again
                os.ftruncate(handle, 0)
                os.write(handle, f" ({os.getpid()} on {socket.gethostname()})".encode())
                return handle
        except OSError:
            os.close(handle)
            raise
        os.close(handle)


def _holder(path: Path) -> str:
    """The process that holds the lock, as the lock file names it; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
