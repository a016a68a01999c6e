"""StoreWriter: shards of states one after the other; a killed writer goes on after the last whole one."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertvision.errors import BertVisionError
from bertvision.store.codec import Statistics, encode, measure
from bertvision.store.manifest import (
    MANIFEST,
    Content,
    Manifest,
    Shard,
    file_digest,
    read_content,
    read_manifest,
    write_content,
    write_manifest,
)
from bertvision.tasks.examples import IntArray

SHARD_WINDOWS = 128
"""Windows in a shard; the last one may have fewer."""

STATISTICS = "statistics.safetensors"

StatesOf = Callable[[IntArray], Tensor]
"""Numbers of windows → their states end to end, (tokens, layers, width), float32."""


class StoreWriter:
    """Makes a store in a folder.

    Attributes:
        folder: where.
        content: what it will hold.
    """

    def __init__(self, folder: Path, content: Content, lengths: IntArray) -> None:
        """Open a folder, new or of an interrupted writer.

        Args:
            folder: of the store.
            content: what it will hold.
            lengths: (windows,) tokens of every window; ones where a window has one row.

        Raises:
            BertVisionError: the folder holds something else.
        """
        self.folder = folder
        self.content = content
        self._lengths = lengths
        before = read_content(folder)
        if before is None and folder.is_dir() and any(folder.iterdir()):
            raise BertVisionError(f"{folder} is there already and is no store. Use another --store.")
        if before is not None and before != content:
            listed = "; ".join(before.differences(content))
            raise BertVisionError(f"{folder} holds another store: {listed}. Use another --store.")
        write_content(folder, content)

    def write(self, states_of: StatesOf) -> Iterator[int]:
        """Write what is missing, shard by shard, and the manifest at the end; yields the windows done so far.

        Of a finished store, what is no longer as it was written is written again.

        Raises:
            BertVisionError: the disk is full, or a value does not fit; whole shards are kept.
        """
        windows = np.arange(self.content.windows)
        known = self._known()
        statistics = self._statistics(states_of, known) if self.content.keep == "int8" else None
        shards = []
        for begin in range(0, len(windows), SHARD_WINDOWS):
            rows = windows[begin : begin + SHARD_WINDOWS]
            path = self.folder / f"{begin // SHARD_WINDOWS:06}.safetensors"
            tokens = int(self._lengths[rows].sum())
            if not (self._is_whole(path, tokens) and _is_as_known(path, known)):
                self._write_shard(path, rows, states_of(rows), statistics)
            shards.append(_listed(path, len(rows), tokens))
            yield int(rows[-1]) + 1
        beside = None if statistics is None else _listed(self.folder / STATISTICS)
        write_manifest(self.folder, Manifest(content=self.content, shards=tuple(shards), statistics=beside))

    def _known(self) -> dict[str, str]:
        """Checksums of a store that was finished before, by file."""
        if not (self.folder / MANIFEST).is_file():
            return {}
        return {file.file: file.sha256 for file in read_manifest(self.folder).files}

    def _write_shard(self, path: Path, rows: IntArray, states: Tensor, statistics: Statistics | None) -> None:
        bounds = torch.from_numpy(np.concatenate([[0], np.cumsum(self._lengths[rows])]))
        kept = encode(states, self.content.keep, statistics)
        self._save({**{name: value.contiguous() for name, value in kept.items()}, "bounds": bounds}, path)

    def _statistics(self, states_of: StatesOf, known: dict[str, str]) -> Statistics:
        """Of a sample of windows, spread over all; kept, so that a resumed writer has the same."""
        path = self.folder / STATISTICS
        if not path.exists() or not _is_as_known(path, known):
            sample = np.unique(np.linspace(0, self.content.windows - 1, 64).astype(np.int64))
            found = measure(states_of(sample))
            self._save({"mean": found.mean.contiguous(), "deviation": found.deviation.contiguous()}, path)
        return load_statistics(self.folder)

    def _save(self, tensors: dict[str, Tensor], path: Path) -> None:
        temporary = path.with_name(f".{path.name}.part")
        try:
            save_file(tensors, temporary)
            temporary.replace(path)
        except Exception as error:  # noqa: BLE001 - safetensors raises a kind of its own when the disk is full
            temporary.unlink(missing_ok=True)
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            raise BertVisionError(
                f"{path} cannot be written: {reason}. Whole shards are kept; make room, and run the same command again."
            ) from None

    def _is_whole(self, path: Path, tokens: int) -> bool:
        """Whether a shard is there and can be read to its end, which a truncated one cannot."""
        try:
            with safe_open(path, framework="pt") as file:
                return bool(file.get_slice("states").get_shape()[0] == tokens)
        except (OSError, SafetensorError):
            return False


def _is_as_known(path: Path, known: dict[str, str]) -> bool:
    """Whether a file has the checksum that it had when the store was finished; True if it never was."""
    return path.name not in known or file_digest(path) == known[path.name]


def _listed(path: Path, windows: int = 0, tokens: int = 0) -> Shard:
    return Shard(file=path.name, windows=windows, tokens=tokens, bytes=path.stat().st_size, sha256=file_digest(path))


def load_statistics(folder: Path) -> Statistics:
    """What an int8 store was standardised by.

    Raises:
        BertVisionError: the file is not whole.
    """
    try:
        found = load_file(folder / STATISTICS)
    except (OSError, SafetensorError) as error:
        raise BertVisionError(f"{folder / STATISTICS} cannot be read ({error}). Make the store anew.") from None
    return Statistics(found["mean"], found["deviation"])
