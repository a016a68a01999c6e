"""Packs on the Hugging Face hub, as folders of files."""

from pathlib import Path
from typing import Any

from bertvision.errors import BertVisionError, first_line

_FILES = ["*.json", "*.safetensors", "*.onnx", "README.md", "heads/*/*.json", "heads/*/*.safetensors"]
"""Patterns of the files of a pack: nothing else is transferred, so no code is."""


def download_pack(name: str) -> Path:
    """Download a pack from the hub unless it is in the cache already, and return its local folder.

    Raises:
        BertVisionError: there is no such pack, or the hub cannot be reached.
    """
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - takes a while to import

    try:
        return Path(snapshot_download(name, allow_patterns=_FILES))
    except Exception as error:  # noqa: BLE001 - names, networks and permissions fail in many ways
        raise BertVisionError(
            f"there is no pack '{name}' ({first_line(error)}). Expected a folder that `bertvision pack` made, or a "
            "name on the hub."
        ) from None


def upload_pack(folder: Path, name: str, *, private: bool) -> str:
    """Upload a pack to the hub, and return its URL.

    Raises:
        BertVisionError: the hub refuses it, or cannot be reached.
    """
    from huggingface_hub import HfApi  # noqa: PLC0415 - takes a while to import

    api: Any = HfApi()
    try:
        address = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=str(folder), allow_patterns=_FILES)
    except Exception as error:  # noqa: BLE001 - names, networks and permissions fail in many ways
        raise BertVisionError(
            f"the pack cannot be put on the hub as '{name}' ({first_line(error)}). Sign in first: hf auth login"
        ) from None
    return str(address)
