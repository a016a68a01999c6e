"""Tensors in a safetensors file, which is either whole and on the disk, or not there."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from bertvision.atomic import part_of, reason_of, sync_folder
from bertvision.errors import WriteError


def save_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: dict[str, str] | None = None,
    *,
    otherwise: str = "Make room, or use another folder.",
) -> None:
    """Write tensors into a folder that is there; an older file is replaced only when the new one is on the disk.

    Args:
        path: of the file.
        tensors: contiguous ones, by name.
        metadata: what else the file says.
        otherwise: what to do where it cannot be written.

    Raises:
        WriteError: it cannot be written; nothing half-written is left, and an older file stays.
    """
    part = part_of(path)
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()  # safetensors takes a random name beside its target: after a kill nobody would know whose it was
        made = part / path.name
        save_file(dict(tensors), made, metadata=metadata)
        made.chmod(part.stat().st_mode & 0o666)  # as the umask allows; safetensors writes for its owner alone
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.replace(path)
        sync_folder(path.parent)
    except (OSError, SafetensorError) as error:
        raise WriteError(path, reason_of(error), otherwise) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
