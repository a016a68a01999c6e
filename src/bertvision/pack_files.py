"""The files of a pack, by name: which folders hold one, and what its card says; read without torch."""

import json
from pathlib import Path
from typing import Any

from bertvision.errors import BertVisionError
from bertvision.provenance import file_digest, package_version

FORMAT = 1
PACK_FILE, HEADS_FOLDER = "pack.json", "heads"
DIGESTS = "digests"
"""Under this name the card keeps `weights_digests`; those of earlier versions have none."""
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
        BertVisionError: there is none, it cannot be read, it is of another format, or a file of weights is not the one
            that the card was written for.
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
        _check_weights(folder, content.get(DIGESTS, {}))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise unreadable(folder, error) from None
    return content


def weights_digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file of weights in a folder, by its path there."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".safetensors", ".onnx"))
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def _check_weights(folder: Path, digests: dict[str, str]) -> None:
    """Refuse weights that are not those of the card; which files have to be there, others know."""
    for name, digest in digests.items():
        path = folder / name
        if path.is_file() and file_digest(path) != digest:
            raise BertVisionError(
                f"{path} is damaged: it is not the file that the pack was made with. Copy it again, or make it again."
            )


def unreadable(folder: Path, error: Exception) -> BertVisionError:
    """What to say of a card that lacks something, or has it in another form."""
    return BertVisionError(f"{folder / PACK_FILE} cannot be read ({error}). Make the pack again: bertvision pack RUN")


def changes_file(number: int) -> str:
    """Name of the file with what changed in the encoder when it was tuned for the first time (0), the second, …."""
    return f"encoder-{number}.safetensors"
