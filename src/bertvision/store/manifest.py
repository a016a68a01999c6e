"""Manifest: description of a finished store; written last, so that a store without a manifest is unfinished."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertvision.atomic import write_json
from bertvision.cards import read_card
from bertvision.errors import BertVisionError
from bertvision.store.codec import Keep, bytes_per_token
from bertvision.tasks.examples import IntArray
from bertvision.typed_json import from_json

T = TypeVar("T")

FORMAT = 1
MANIFEST, CONTENT = "manifest.json", "content.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is in a store, or is to be.

    Attributes:
        encoder: its name.
        fingerprint: of its weights.
        task: the task's name.
        split: train, dev, or another.
        windows: how many token windows.
        tokens: in all of them.
        digest: of the windows' token numbers and bounds: tokenizer, data and window settings all at once.
        settings: length, stride and question of the windows, for people.
        pool: whether each window has one row, and which; None keeps every token.
        keep: how states are kept.
        first_layer: the lowest layer.
        layers: how many.
        width: numbers per token and layer.
    """

    encoder: str
    fingerprint: str
    task: str
    split: str
    windows: int
    tokens: int
    digest: str
    settings: dict[str, int]
    pool: str | None
    keep: Keep
    first_layer: int
    layers: int
    width: int

    @property
    def layer_numbers(self) -> range:
        """Numbers of the layers."""
        return range(self.first_layer, self.first_layer + self.layers)

    @property
    def bytes(self) -> int:
        """About how many bytes it takes on disk."""
        return self.tokens * bytes_per_token(self.keep, self.layers, self.width)

    def differences(self, wanted: "Content") -> dict[str, str]:
        """The fields in which this differs from what is wanted, each with the difference in words."""
        mine, theirs = asdict(self), asdict(wanted)
        return {
            name: f"{name} is {mine[name]}, {theirs[name]} is asked for" for name in mine if mine[name] != theirs[name]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A file of a store.

    Attributes:
        file: its name.
        windows: how many it holds.
        tokens: in all of them.
        bytes: its size.
        sha256: of the whole file.
        keep: how its states are kept, where that is not as asked: bf16, where one is too large for fp16.
    """

    file: str
    windows: int
    tokens: int
    bytes: int
    sha256: str
    keep: Keep | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A finished store.

    Attributes:
        content: what it holds.
        shards: its states, in order.
        statistics: the file that says how to read int8.
    """

    content: Content
    shards: tuple[Shard, ...]
    statistics: Shard | None = None

    @property
    def files(self) -> tuple[Shard, ...]:
        """All files that have a checksum."""
        return self.shards if self.statistics is None else (*self.shards, self.statistics)

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)


def write_content(folder: Path, content: Content) -> None:
    """Say at the beginning what a store will hold, so that a later run can tell whether it may go on."""
    write_json(folder / CONTENT, {"format": FORMAT, **asdict(content)})


def read_content(folder: Path) -> Content | None:
    """What a store that is being made will hold; None if there is none."""
    path = folder / CONTENT
    return _read(path, partial(from_json, Content)) if path.is_file() else None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, which makes a store a finished one."""
    write_json(folder / MANIFEST, {"format": FORMAT, **asdict(manifest)})


def read_manifest(folder: Path) -> Manifest:
    """What a store holds.

    Raises:
        BertVisionError: there is no store, it is not finished, of another format, or its files contradict each other.
    """
    path = folder / MANIFEST
    if not path.is_file():
        unfinished = (folder / CONTENT).is_file()
        raise BertVisionError(
            f"{folder} has no manifest: it is not finished. Go on with the same `bertvision extract`."
            if unfinished
            else f"{folder} is no store: it has no {MANIFEST}. Make one with `bertvision extract`."
        )
    manifest = _read(path, _manifest)
    begun = read_content(folder)
    if begun is not None and begun != manifest.content:
        listed = "; ".join(manifest.content.differences(begun).values())
        raise BertVisionError(
            f"{path} and {CONTENT} beside it contradict each other: {listed}. Put back what was changed, or make "
            "another store: bertvision extract."
        )
    return manifest


def _manifest(found: dict[str, Any]) -> Manifest:
    manifest = from_json(Manifest, found)
    names = [shard.file for shard in manifest.shards]
    windows, tokens = (sum(getattr(shard, kind) for shard in manifest.shards) for kind in ("windows", "tokens"))
    if names != sorted(set(names)) or (windows, tokens) != (manifest.content.windows, manifest.content.tokens):
        raise ValueError("its shards are not those of all its windows in their order")
    return manifest


def _read(path: Path, build: Callable[[dict[str, Any]], T]) -> T:
    return read_card(path, build, format=FORMAT, otherwise="Make another store: bertvision extract.")


def windows_digest(ids: NDArray[np.int32], bounds: IntArray) -> str:
    """A hash of token windows: what they are made of, and where each begins."""
    digest = hashlib.sha256(np.ascontiguousarray(ids).tobytes())
    digest.update(np.ascontiguousarray(bounds).tobytes())
    return digest.hexdigest()[:16]
