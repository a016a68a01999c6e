"""`bertvision store info`: show what a store holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bertvision.amounts import in_layers
from bertvision.cli.output import print_json, print_table
from bertvision.errors import BertVisionError

if TYPE_CHECKING:
    from bertvision.store.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision store info`."""

    store: Path
    """Folder of a store, or of one of its splits."""

    json: bool = False
    """Print the result as JSON."""


def run(options: Options) -> int:
    """Print the manifests."""
    from bertvision.store.manifest import read_manifest  # noqa: PLC0415 - imports torch

    rows = {split.name: describe(read_manifest(split)) for split in splits_of(options.store)}
    if options.json:
        print_json(rows)
        return 0
    names = list(next(iter(rows.values())))
    print_table(str(options.store), ["", *rows], [[name, *(row[name] for row in rows.values())] for name in names])
    return 0


def splits_of(store: Path) -> list[Path]:
    """The folders of the splits in a store, or the folder itself if it is that of a split.

    Raises:
        BertVisionError: there is no store.
    """
    from bertvision.store.manifest import CONTENT, MANIFEST  # noqa: PLC0415

    folders = [store, *sorted(store.glob("*/"))]
    splits = [folder for folder in folders if (folder / MANIFEST).is_file() or (folder / CONTENT).is_file()]
    if not splits:
        raise BertVisionError(f"{store} is no store. Make one with `bertvision extract`.")
    return splits


def describe(manifest: "Manifest") -> dict[str, object]:
    """A manifest as values by name, without nesting."""
    content = manifest.content
    wide = sum(shard.keep is not None for shard in manifest.shards)  # with values too large for the store's format
    return {
        "task": content.task,
        "encoder": content.encoder,
        "fingerprint": content.fingerprint,
        "windows": content.windows,
        "tokens": content.tokens,
        "layers": in_layers(content.layer_numbers),
        "width": content.width,
        "keep": content.keep if not wide else f"{content.keep}, {wide} shards bf16",
        "pool": content.pool,
        "shards": len(manifest.shards),
        "bytes": manifest.bytes,
    }
