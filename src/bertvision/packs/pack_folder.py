"""PackFolder: a pack as a folder of files, exported or not; it imports no torch."""

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
"""Describes how a pack was exported; only exported packs have this file."""


@dataclass(frozen=True)
class PackFolder(ABC):
    """A pack in a folder.

    Attributes:
        folder: folder with its files.
        card: card of the pack.
    """

    folder: Path
    card: PackCard

    @final
    def save_pretrained(self, folder: str | Path) -> None:
        """Copy the pack to another folder, which appears, or replaces an older pack, only when it is complete.

        Raises:
            BertVisionError: the folder is not empty and holds no pack, lies in this pack, or cannot be written.
        """
        target = Path(folder)
        if target.resolve() == self.folder.resolve():
            return
        if target.resolve().is_relative_to(self.folder.resolve()):
            raise BertVisionError(f"{target} lies in the pack {self.folder} itself. Use another folder.")
        with_folder(target, lambda place: shutil.copytree(self.folder, place, dirs_exist_ok=True))

    @final
    def push_to_hub(self, name: str, *, private: bool = False) -> str:
        """Upload the pack to the Hugging Face hub as `user/name`; log in before with `hf auth login`.

        Returns:
            Its URL.

        Raises:
            BertVisionError: the hub refuses it, or cannot be reached.
        """
        return upload_pack(self.folder, name, private=private)

    @property
    def encoder_id(self) -> str | None:
        """Id of the encoder with its changes: packs with the same id can share a pass; None can share with none."""
        return None

    @property
    @final
    def bytes(self) -> int:
        """Size of its files."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def locate_pack(name: str | Path | None) -> Path:
    """The folder of a pack: a local one, that of the shipped pack for its name or None, or a download from the hub.

    A path that exists or looks like one (`./…`, `/…`, `~…`) is returned as it is, even if it holds no pack.

    Raises:
        BertVisionError: there is no pack of that name.
    """
    if name is None:
        return builtin_pack()
    found = find_pack(str(name))
    if found is not None:
        return found
    place = Path(name)
    local = place.exists() or str(name).startswith((".", "/", "~"))
    return place if local else download_pack(str(name))


def is_exported(folder: Path) -> bool:
    """Whether the pack in a folder was exported."""
    return (folder / EXPORT_FILE).is_file()


def with_folder(folder: Path, write: Callable[[Path], object]) -> None:
    """Write a folder that appears, or replaces an older pack, only when it is complete.

    Args:
        folder: folder to write.
        write: function that fills a temporary folder.

    Raises:
        BertVisionError: the folder is not empty and holds no pack, or it cannot be written.
    """
    if folder.exists() and not (folder / PACK_FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise BertVisionError(f"{folder} is there already and is no pack. Use another --out.")
    with (
        lock_folder(folder.absolute().parent, wait=True),  # another process may be writing the same pack
        whole_folder(folder, "the pack", otherwise="Make room, and try again.") as part,
    ):
        write(part)
