"""StoreWriter: writes shards of states, in one process or several, and resumes after the last complete shard."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bertvision.errors import BertVisionError
from bertvision.provenance import file_digest
from bertvision.store.codec import Statistics, encode, measure, precision_for
from bertvision.store.manifest import (
    MANIFEST,
    Content,
    Manifest,
    Shard,
    read_content,
    read_manifest,
    write_content,
    write_manifest,
)
from bertvision.tasks.examples import IntArray
from bertvision.tensor_files import load_tensors, save_tensors

SHARD_WINDOWS = 128
"""Windows in a shard; the last one may have fewer."""

GROUP_SHARDS = 8
"""Most shards that are computed together: sorted by length, more windows give batches with less padding."""

GROUP_BYTES = 2**30
"""Most bytes of float32 states of the shards that are computed together, unless one shard alone has more."""

STATISTICS = "statistics.safetensors"

_SAMPLE_TOKENS = 4096
"""About the number of tokens that the statistics of int8 are measured on; more do not reduce the error."""

_SAMPLE_WINDOWS = (16, 64)
"""Fewest and most windows that are measured."""

_HALF_WRITTEN = (".*.safetensors.part", ".*.json.*", ".tmp??????")
"""Names of what a killed writer leaves half-written; the last one is that of safetensors, in earlier versions."""

_IF_FULL = "Whole shards are kept; make room, and run the same command again."

_CHUNK = 256
"""Tokens that are encoded at a time: they fit into the processor's cache, and on a GPU need little memory."""

StatesOf = Callable[[IntArray], Tensor]
"""Numbers of windows → their states end to end, (tokens, layers, width), of any type, on any device."""


def shard_sums(values: IntArray) -> IntArray:
    """Sum a number of every window, (windows,), over the windows of each shard, (shards,)."""
    return np.add.reduceat(values, np.arange(0, len(values), SHARD_WINDOWS)) if len(values) else values


def shard_groups(tokens: IntArray, layers: int, width: int) -> list[range]:
    """Numbers of the shards that are computed together, by the tokens of every shard; process p of P takes [p::P]."""
    groups: list[range] = []
    begin, held = 0, 0
    for number, size in enumerate((tokens * (layers * width * 4)).tolist()):
        if number > begin and (number - begin == GROUP_SHARDS or held + size > GROUP_BYTES):
            groups.append(range(begin, number))
            begin, held = number, 0
        held += size
    return [*groups, range(begin, len(tokens))] if len(tokens) else []


@final
class StoreWriter:
    """Writes a store in four steps: `begin`, `measure`, `write` (every process its share), `finish`.

    Which windows are computed together depends on the windows alone, so a store is bit-identical however many processes
    wrote it, and however often they were killed.

    Attributes:
        folder: of the store.
        content: description of the store.
    """

    def __init__(self, folder: Path, content: Content, lengths: IntArray) -> None:
        """Plan a store; nothing is read or written.

        Args:
            folder: of the store.
            content: what it will hold.
            lengths: (windows,) tokens of every window; ones where a window has one row.
        """
        self.folder = folder
        self.content = content
        self._lengths = lengths

    def check(self) -> Content | None:
        """Check that the folder is new or holds an interrupted store of the same content, which is returned.

        Raises:
            BertVisionError: the folder holds something else.
        """
        before = read_content(self.folder)
        if before is None and self.folder.is_dir() and any(self.folder.glob("[!.]*")):
            raise BertVisionError(f"{self.folder} is there already and is no store. Use another --store.")
        if before is not None and before != self.content:
            listed = "; ".join(before.differences(self.content).values())
            raise BertVisionError(f"{self.folder} holds another store: {listed}. Use another --store.")
        return before

    @property
    def bytes_there(self) -> int:
        """Bytes of the existing shards, and of the half-written files that `begin` removes."""
        left = (file for path in self._left() for file in (path, *path.rglob("*")) if file.is_file())
        return sum(path.stat().st_size for path in (*self.folder.glob("0*.safetensors"), *left))

    def windows(self, *, process: int = 0, processes: int = 1) -> int:
        """How many windows one process's share has."""
        return sum(len(self._rows(number)) for group in self._groups()[process::processes] for number in group)

    def begin(self) -> None:
        """Write the content file, and remove half-written files of a killed writer; in one process only.

        Raises:
            BertVisionError: the folder holds something else, or cannot be written.
        """
        if self.check() is None:
            write_content(self.folder, self.content)
        for left in self._left():
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()

    def measure(self, states_of: StatesOf) -> None:
        """Measure the statistics of int8 on evenly spaced windows; in one process, before any `write`.

        Every shard has the checksum of the statistics it was encoded with. If no shard has that of the statistics file
        (it is lost, damaged, or was never used), they are measured again; shards with another checksum can no longer be
        decoded, and `write` writes them again.

        Raises:
            BertVisionError: they cannot be written.
        """
        path = self.folder / STATISTICS
        if self.content.keep != "int8" or (path.is_file() and file_digest(path) in self._named_statistics()):
            return
        (self.folder / MANIFEST).unlink(missing_ok=True)  # old shards must not be read with new statistics
        windows = np.clip(_SAMPLE_TOKENS * self.content.windows // self.content.tokens, *_SAMPLE_WINDOWS)
        rows = np.unique(np.linspace(0, self.content.windows - 1, windows).astype(np.int64))
        found = measure(states_of(rows).float())
        kept = {"mean": found.mean.cpu().contiguous(), "deviation": found.deviation.cpu().contiguous()}
        save_tensors(path, kept, otherwise=_IF_FULL)

    def write(self, states_of: StatesOf, *, process: int = 0, processes: int = 1) -> Iterator[Shard]:
        """Write the missing shards of one process's share; yields every shard of the share once it is complete.

        In a finished store, shards whose checksum differs from the manifest are written again.

        Raises:
            BertVisionError: the disk is full, or a value is not finite; whole shards are kept.
        """
        known = self._known()
        statistics, named = None, None
        if self.content.keep == "int8":
            statistics, named = load_statistics(self.folder), file_digest(self.folder / STATISTICS)
        for numbers in self._groups()[process::processes]:
            found = {number: self._find(number, known, named) for number in numbers}
            if all(found.values()):
                yield from (shard for shard in found.values() if shard is not None)
                continue
            rows = np.concatenate([self._rows(number) for number in numbers])
            states = states_of(rows)
            for number, some in zip(numbers, torch.split(states, self._tokens(numbers)), strict=True):
                yield found[number] or self._write(number, some, statistics, named)

    def finish(self, shards: Iterable[Shard]) -> Manifest:
        """Write the manifest, once every shard is complete; in one process only."""
        ordered = tuple(sorted(shards, key=lambda shard: shard.file))
        statistics = _shard_of(self.folder / STATISTICS) if self.content.keep == "int8" else None
        manifest = Manifest(content=self.content, shards=ordered, statistics=statistics)
        write_manifest(self.folder, manifest)
        return manifest

    def write_all(self, states_of: StatesOf) -> Manifest:
        """All four steps, in this process only.

        Raises:
            BertVisionError: the folder holds something else, the disk is full, or a value is not finite.
        """
        self.begin()
        self.measure(states_of)
        return self.finish(list(self.write(states_of)))

    def _groups(self) -> list[range]:
        return shard_groups(shard_sums(self._lengths), self.content.layers, self.content.width)

    def _rows(self, number: int) -> IntArray:
        return np.arange(number * SHARD_WINDOWS, min((number + 1) * SHARD_WINDOWS, self.content.windows))

    def _tokens(self, numbers: Iterable[int]) -> list[int]:
        """The number of tokens of each shard."""
        return [int(self._lengths[self._rows(number)].sum()) for number in numbers]

    def _left(self) -> list[Path]:
        """Half-written files of a killed writer."""
        return [path for pattern in _HALF_WRITTEN for path in self.folder.glob(pattern)]

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06}.safetensors"

    def _known(self) -> dict[str, str]:
        """Checksums in the manifest of a finished store, by file name."""
        if not (self.folder / MANIFEST).is_file():
            return {}
        return {file.file: file.sha256 for file in read_manifest(self.folder).files}

    def _named_statistics(self) -> set[str]:
        """Checksums of the statistics that shards were encoded with."""
        named = set()
        for path in self.folder.glob("0*.safetensors"):
            try:
                with safe_open(path, framework="pt") as file:
                    named.add((file.metadata() or {}).get("statistics", ""))
            except (OSError, SafetensorError):
                continue
        return named

    def _find(self, number: int, known: dict[str, str], statistics: str | None) -> Shard | None:
        """The existing shard of this number, if it is complete and unchanged; None if it must be written.

        Args:
            number: of the shard.
            known: checksums of a finished store, by file name.
            statistics: checksum of the statistics, for int8.
        """
        path = self._path(number)
        (tokens,) = self._tokens([number])
        try:
            with safe_open(path, framework="pt") as file:
                states = file.get_slice("states")
                named = (file.metadata() or {}).get("statistics")
                if states.get_shape()[0] != tokens or named != statistics:
                    return None
                wide = self.content.keep == "fp16" and states.get_dtype() == "BF16"
        except (OSError, SafetensorError):
            return None
        shard = _shard_of(path, windows=len(self._rows(number)), tokens=tokens, wide=wide)
        return shard if known.get(path.name, shard.sha256) == shard.sha256 else None

    def _write(self, number: int, states: Tensor, statistics: Statistics | None, named: str | None) -> Shard:
        keep = precision_for(states, self.content.keep)
        if statistics is not None:
            statistics = statistics.to(states.device)
        parts = [encode(part, keep, statistics) for part in torch.split(states, _CHUNK)]
        kept = {name: torch.cat([part[name] for part in parts]).cpu() for name in parts[0]}
        lengths = self._lengths[self._rows(number)]
        kept["bounds"] = torch.from_numpy(np.concatenate([[0], np.cumsum(lengths)]))
        path = self._path(number)
        save_tensors(path, kept, None if named is None else {"statistics": named}, otherwise=_IF_FULL)
        return _shard_of(path, windows=len(lengths), tokens=len(states), wide=keep != self.content.keep)


def _shard_of(path: Path, *, windows: int = 0, tokens: int = 0, wide: bool = False) -> Shard:
    """The manifest's entry of a file; `wide` if its states are bfloat16 although float16 was asked for."""
    return Shard(
        file=path.name,
        windows=windows,
        tokens=tokens,
        bytes=path.stat().st_size,
        sha256=file_digest(path),
        keep="bf16" if wide else None,
    )


def load_statistics(folder: Path) -> Statistics:
    """The statistics of an int8 store.

    Raises:
        BertVisionError: the file is missing or damaged.
    """
    found = load_tensors(folder / STATISTICS, otherwise="Run the same extract again: it writes them anew.")
    return Statistics(found["mean"], found["deviation"])
