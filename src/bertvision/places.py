"""Relative paths that a folder's JSON file names: where they led when it was written, as seen from here."""

import os
from pathlib import Path

from bertvision.pack_files import BUILTIN_PACK
from bertvision.pretrained import BUILTIN_ENCODER


def made_in(folder: Path) -> str:
    """The working directory, as seen from a folder that is being written: it tells of no machine."""
    return os.path.relpath(Path.cwd().resolve(), folder.resolve())


def moved(made: str, folder: Path, copy: Path) -> str:
    """What `made_in` gave for a folder, as it must be in a copy of the folder."""
    return os.path.relpath((folder.resolve() / made).resolve(), copy.resolve())


def path_from_here(asked: str, folder: Path, made: str | None) -> str:
    """A path as it is seen from the working directory of today.

    It stays as it was written where it leads to the same place as then, or where nothing is there any more.

    Args:
        asked: as it was written.
        folder: whose file names it.
        made: what `made_in` gave for the folder; None where it is not known.
    """
    if made is None or Path(asked).is_absolute():
        return asked
    place = (folder.resolve() / made / asked).resolve()
    return asked if not place.exists() or place == Path(asked).resolve() else os.path.relpath(place)


def encoder_from_here(asked: str, folder: Path, made: str | None) -> str:
    """The name of an encoder, as `path_from_here` where it is a folder's, or that of a run with a snapshot."""
    if asked in (BUILTIN_ENCODER, BUILTIN_PACK):
        return asked
    found = path_from_here(asked, folder, made)
    run, at, snapshot = asked.rpartition("@")
    return found if found != asked or not at else f"{path_from_here(run, folder, made)}@{snapshot}"
