"""Disk space: the size of a store, checked against the budget and the free space before it is written."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bertvision.amounts import in_bytes
from bertvision.errors import BertVisionError
from bertvision.store.codec import Keep, bytes_per_token
from bertvision.store.manifest import Content
from bertvision.store.writer import SHARD_WINDOWS

_MAX_SHARD_OVERHEAD = 2048
"""Upper bound of a shard's bytes besides states: header, bounds, entry in the manifest."""

_MAX_STORE_OVERHEAD = 16384
"""Upper bound of the bytes of a store's other files, without the statistics of int8."""


def store_bytes(content: Content) -> int:
    """Upper bound of a store's size on disk, in bytes."""
    return bytes_on_disk(content.keep, content.layers, content.width, windows=content.windows, tokens=content.tokens)


def bytes_on_disk(keep: Keep, layers: int, width: int, *, windows: int, tokens: int) -> int:
    """Upper bound of the size on disk of a store with so many windows and tokens, in bytes."""
    statistics = 8 * layers * width if keep == "int8" else 0
    shards = math.ceil(windows / SHARD_WINDOWS)
    overhead = shards * _MAX_SHARD_OVERHEAD + _MAX_STORE_OVERHEAD
    return tokens * bytes_per_token(keep, layers, width) + statistics + overhead


def check_room(contents: Sequence[Content], max_disk: int | None) -> None:
    """Refuse stores that would take more than is allowed.

    Raises:
        BertVisionError: naming what they would take, and what takes less.
    """
    needed = _bytes_of(contents)
    if max_disk is None or needed <= max_disk:
        return
    shard = max(content.bytes * min(SHARD_WINDOWS, content.windows) // max(1, content.windows) for content in contents)
    allowed = f"--max-disk allows {in_bytes(max_disk)}"
    if max_disk < shard:
        allowed += f", less than one shard ({in_bytes(shard)})"
    raise BertVisionError(f"the store would take {in_bytes(needed)}; {allowed}. Allow more, or use {_less(contents)}")


def check_disk(contents: Sequence[Content], store: Path, there: int = 0) -> None:
    """Refuse stores for which the disk has no room.

    Args:
        contents: of the stores.
        store: the folder that they go to; it need not be there yet.
        there: bytes that are written already.

    Raises:
        BertVisionError: naming what they would take, what is free, and what takes less.
    """
    needed = _bytes_of(contents) - there
    disk = next(folder for folder in [store, *store.absolute().parents] if folder.exists())
    free = shutil.disk_usage(disk).free
    if needed > free:
        more = " more" if there else ""
        raise BertVisionError(
            f"the store would take {in_bytes(needed)}{more}; {in_bytes(free)} are free on the disk of {disk}. "
            f"Make room, or use {_less(contents, 'another disk')}"
        )


def _bytes_of(contents: Sequence[Content]) -> int:
    return sum(store_bytes(content) for content in contents)


def _less(contents: Sequence[Content], *more: str) -> str:
    """What the user may do instead: the ways that are given, and those that take less room."""
    ways = list(more)
    if any(content.keep != "int8" for content in contents):
        small = _bytes_of([replace(content, keep="int8") for content in contents])
        ways.append(f"--keep int8 ({in_bytes(small)})")
    if any(content.layers > 1 for content in contents):
        layer = sum(content.bytes // content.layers for content in contents)
        ways.append(f"fewer --layers ({in_bytes(layer)} each)")
    return " or ".join([", ".join(ways)] * bool(ways) + ["no store: bertvision fit computes states anew."])
