"""The files of a pack, by name: which folders hold one, and what its card says; read without torch."""

import json
from pathlib import Path
from typing import Any

from bertvision.errors import BertVisionError
from bertvision.provenance import package_version

FORMAT = 1
PACK_FILE, HEADS_FOLDER = "pack.json", "heads"
BUILTIN_PACKS = Path(__file__).parent / "packs" / "builtin"
BUILTIN_PACK = "qa-minilm"
"""Name of the pack that comes with the installation, and answers questions."""


def builtin_pack() -> Path:
    """The folder of the shipped question-answering pack.

    Raises:
        BertVisionError: this installation carries none.
    """
    folder = BUILTIN_PACKS / BUILTIN_PACK
    if not (folder / PACK_FILE).is_file():
        raise BertVisionError(
            "this installation carries no question-answering pack. Name one with --pack: a folder that "
            "`bertvision pack RUN --out DIR` made, or a name on the hub; tools/make_qa_pack.py trains one."
        )
    return folder


def find_pack(name: str) -> Path | None:
    """The folder of a pack that is here: by its folder, or the shipped one by its name; None if it is none.

    Raises:
        BertVisionError: the shipped one is meant, and this installation carries none.
    """
    if (Path(name) / PACK_FILE).is_file():
        return Path(name)
    return builtin_pack() if name == BUILTIN_PACK else None


def read_pack_file(folder: Path) -> dict[str, Any]:
    """What the card of the pack in a folder holds, but for what tells its format.

    Raises:
        BertVisionError: there is none, it cannot be read, or it is of another format.
    """
    path = folder / PACK_FILE
    if not path.is_file():
        raise BertVisionError(f"{folder} holds no pack: {PACK_FILE} is not there. Make one: bertvision pack RUN")
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found, version = content.pop("format"), content.pop("version")
        if found != FORMAT or content.pop("record") != "pack":
            raise BertVisionError(
                f"{path} has format {found}, {FORMAT} is expected; it was made by version {version}, "
                f"this is {package_version()}."
            )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unreadable(folder, error) from None
    return content


def unreadable(folder: Path, error: Exception) -> BertVisionError:
    """What to say of a card that lacks something, or has it in another form."""
    return BertVisionError(f"{folder / PACK_FILE} cannot be read ({error}). Make the pack again: bertvision pack RUN")


def changes_file(number: int) -> str:
    """Name of the file with what changed in the encoder when it was tuned for the first time (0), the second, …."""
    return f"encoder-{number}.safetensors"
