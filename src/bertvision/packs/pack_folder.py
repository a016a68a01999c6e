"""PackFolder: the folder of a pack, whatever runs it; read without torch."""

import shutil
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from bertvision.atomic import whole_folder
from bertvision.errors import BertVisionError
from bertvision.lock import lock_folder
from bertvision.pack_files import PACK_FILE, builtin_pack, find_pack
from bertvision.packs.card import PackCard
from bertvision.packs.hub import download_pack, upload_pack

EXPORT_FILE = "export.json"
"""Says how a pack was exported; only exported ones have it."""


@dataclass(frozen=True)
class PackFolder(ABC):
    """A pack as it lies in a folder.

    Attributes:
        folder: folder of its files.
        card: card of the pack.
    """

    folder: Path
    card: PackCard

    @final
    def save_pretrained(self, folder: str | Path) -> None:
        """Write the pack into another folder, which appears only when it is whole.

        Raises:
            BertVisionError: the folder holds something else, or cannot be written.
        """
        target = Path(folder)
        if target.resolve() == self.folder.resolve():
            return
        with_folder(target, lambda place: shutil.copytree(self.folder, place, dirs_exist_ok=True))

    @final
    def push_to_hub(self, name: str, *, private: bool = False) -> str:
        """Put the pack on the Hugging Face hub as `user/name`; who one is, `hf auth login` has settled.

        Returns:
            Its address.

        Raises:
            BertVisionError: the hub refuses.
        """
        return upload_pack(self.folder, name, private=private)

    @property
    def encoder_id(self) -> str | None:
        """Tells whether two packs can share a pass: those with the same one can; None shares with none."""
        return None

    @property
    @final
    def bytes(self) -> int:
        """What it takes on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def locate_pack(name: str | Path | None) -> Path:
    """The folder of a pack: one that is here, a copy of one on the hub, or the shipped one for its name or None.

    Raises:
        BertVisionError: there is none.
    """
    if name is None:
        return builtin_pack()
    found = find_pack(str(name))
    if found is not None:
        return found
    place = Path(name)
    here = place.exists() or str(name).startswith((".", "/", "~"))
    return place if here else download_pack(str(name))


def is_exported(folder: Path) -> bool:
    """Whether the pack in a folder was exported."""
    return (folder / EXPORT_FILE).is_file()


def with_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Fill a folder that appears, or replaces an older pack, only when it is whole.

    Raises:
        BertVisionError: the folder holds something else, or cannot be written.
    """
    if folder.exists() and not (folder / PACK_FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise BertVisionError(f"{folder} is there already and is no pack. Use another --out.")
    with (
        lock_folder(folder.absolute().parent, wait=True),  # another process may write the same one
        whole_folder(folder, "the pack", otherwise="Make room, and try again.") as part,
    ):
        write(part)
