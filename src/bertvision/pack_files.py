"""File names inside a pack, finding a pack, its card and digests; without torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bertvision.cards import read_card
from bertvision.errors import BertVisionError
from bertvision.provenance import file_digest

T = TypeVar("T")

FORMAT = 1
PACK_FILE, HEADS_FOLDER = "pack.json", "heads"
BUILTIN_PACKS = Path(__file__).parent / "packs" / "builtin"
BUILTIN_PACK = "qa-minilm"
"""Name of the question-answering pack that is installed with the package."""


def builtin_pack() -> Path:
    """The folder of the built-in question-answering pack.

    Raises:
        BertVisionError: this installation has none.
    """
    folder = BUILTIN_PACKS / BUILTIN_PACK
    if not (folder / PACK_FILE).is_file():
        raise BertVisionError(
            "this installation carries no question-answering pack. Name one with --pack: a folder that "
            "`bertvision pack RUN --out DIR` made, or a name on the hub; tools/make_qa_pack.py trains one."
        )
    return folder


def find_pack(name: str) -> Path | None:
    """The folder of a local pack, given that folder or the name of the built-in pack; None for any other name.

    Raises:
        BertVisionError: the built-in pack is named, and this installation has none.
    """
    if (Path(name) / PACK_FILE).is_file():
        return Path(name)
    return builtin_pack() if name == BUILTIN_PACK else None


def read_pack_file(folder: Path, build: Callable[[dict[str, Any]], T]) -> T:
    """Read the card of a pack, without its weights.

    Args:
        folder: of the pack.
        build: makes the result from the content of the card; see `read_card`.

    Raises:
        BertVisionError: there is no card, it cannot be read, is of another format, or `build` rejects its content.
    """
    path = folder / PACK_FILE
    if not path.is_file():
        raise BertVisionError(f"{folder} holds no pack: {PACK_FILE} is not there. Make one: bertvision pack RUN")
    otherwise = "Make the pack again: bertvision pack RUN"
    return read_card(path, build, format=FORMAT, record="pack", otherwise=otherwise)


def weights_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every weights file in a folder and its subfolders, by path relative to the folder."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".safetensors", ".onnx"))
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def check_digest(path: Path, digest: str | None) -> None:
    """Check a weights file against the SHA-256 in its pack's card.

    Args:
        path: of the file.
        digest: expected SHA-256; None, as for packs made before cards had digests, checks nothing.

    Raises:
        BertVisionError: the file differs, or cannot be read.
    """
    try:
        damaged = digest is not None and file_digest(path) != digest
    except OSError as error:
        raise BertVisionError(f"{path} cannot be read ({error}). Copy it again, or make it again.") from None
    if damaged:
        raise BertVisionError(
            f"{path} is damaged: it is not the file that the pack was made with. Copy it again, or make it again."
        )


def changes_file(number: int) -> str:
    """Name of the file with the changed encoder weights of tuning stage `number` (0 for the first)."""
    return f"encoder-{number}.safetensors"


def head_file(name: str) -> str:
    """Path of a head's weights file, relative to the pack's folder."""
    return f"{HEADS_FOLDER}/{name}/head.safetensors"
