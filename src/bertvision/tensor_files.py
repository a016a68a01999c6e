"""Read safetensors files, and write them atomically."""

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
    """Write a safetensors file atomically (see `whole_file`).

    Args:
        path: of the file; its folder exists.
        tensors: contiguous tensors by name.
        metadata: stored in the header of the file.
        otherwise: advice for the error message.

    Raises:
        WriteError: the file cannot be written; an existing file stays as it was, and no partial one is left.
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
        otherwise: advice for the error message.

    Raises:
        BertVisionError: the file is missing or damaged.
    """
    try:
        loaded: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BertVisionError(f"{path} cannot be read ({error}). {otherwise}".rstrip()) from None
    return loaded
