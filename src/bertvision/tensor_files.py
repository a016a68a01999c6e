"""Tensors in a safetensors file, which is either whole and on the disk, or not there."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from bertvision.atomic import whole_file


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
