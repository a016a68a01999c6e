"""Tensors in a safetensors file: written so that it is either whole and on the disk, or not there; and read."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertvision.atomic import whole_file
from bertvision.errors import BertVisionError


def save_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: dict[str, str] | None = None,
    *,
    otherwise: str = "Make room, or use another folder.",
) -> None:
    """Write tensors into a folder that is there, as `whole_file` does.

    Args:
        path: of the file.
        tensors: contiguous ones, by name.
        metadata: what else the file says.
        otherwise: what to do where it cannot be written.

    Raises:
        WriteError: it cannot be written; nothing half-written is left, and an older file stays.
    """
    with whole_file(path, otherwise=otherwise) as made:
        try:
            save_file(dict(tensors), made, metadata=metadata)
        except SafetensorError as error:
            raise OSError(str(error)) from None


def load_tensors(path: Path, *, otherwise: str = "") -> dict[str, Tensor]:
    """The tensors of a file, by name.

    Args:
        path: of the file.
        otherwise: what to do where it cannot be read.

    Raises:
        BertVisionError: it cannot be read.
    """
    try:
        loaded: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BertVisionError(f"{path} cannot be read ({error}). {otherwise}".rstrip()) from None
    return loaded
