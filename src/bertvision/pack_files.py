"""The files of a pack, by name: which folders hold one, and what its card says; read without torch."""

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


def read_pack_file(folder: Path, build: Callable[[dict[str, Any]], T]) -> T:
    """What the card of the pack in a folder says; no file of weights is looked at.

    Args:
        folder: of the pack.
        build: what the card holds, but for what tells its format → the result.

    Raises:
        BertVisionError: there is none, it cannot be read, is of another format, or lacks something that `build` needs.
    """
    path = folder / PACK_FILE
    if not path.is_file():
        raise BertVisionError(f"{folder} holds no pack: {PACK_FILE} is not there. Make one: bertvision pack RUN")
    otherwise = "Make the pack again: bertvision pack RUN"
    return read_card(path, build, format=FORMAT, record="pack", otherwise=otherwise)


def weights_digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file of weights in a folder, by its path there."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".safetensors", ".onnx"))
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def check_digest(path: Path, digest: str | None) -> None:
    """Refuse a file of weights that is not the one that its pack's card was written for.

    Args:
        path: of the file.
        digest: what the card says; None of packs that were made before cards had digests.

    Raises:
        BertVisionError: it is another one, or cannot be read.
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
    """Name of the file with what changed in the encoder when it was tuned for the first time (0), the second, …."""
    return f"encoder-{number}.safetensors"


def head_file(name: str) -> str:
    """Path, in a pack, of the file with the weights of a head."""
    return f"{HEADS_FOLDER}/{name}/head.safetensors"
