"""Small stores of made-up states."""

from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertvision.inference.computed_states import StreamStates
from bertvision.store.manifest import Content
from bertvision.store.writer import StoreWriter
from bertvision.tasks.examples import IntArray
from bertvision.training.states import StateBatch

LAYERS, WIDTH = 3, 4
SHARD = 4
"""Windows in a shard of a small store."""


def small_shards(patch: pytest.MonkeyPatch) -> None:
    """Let a shard have few windows, and be computed by itself."""
    for module in ("store.writer", "store.room"):
        patch.setattr(f"bertvision.{module}.SHARD_WINDOWS", SHARD)
    patch.setattr("bertvision.store.writer.GROUP_SHARDS", 1)


class Source:
    """Stands for an encoder: random states, and a note of what was asked for; fails after so many calls."""

    def __init__(self, *lengths: int, seed: int = 0, calls: int | None = None) -> None:
        random = torch.Generator().manual_seed(seed)
        self.windows = [torch.randn(length, LAYERS, WIDTH, generator=random) for length in lengths]
        self.lengths: IntArray = np.array(lengths)
        self.asked: list[list[int]] = []
        self._calls = calls

    def __call__(self, rows: IntArray) -> Tensor:
        if len(self.asked) == self._calls:
            raise KeyboardInterrupt
        self.asked.append(rows.tolist())
        return torch.cat([self.windows[row] for row in rows])

    def content(self, **changes: Any) -> Content:  # noqa: ANN401 - any field
        content = Content(
            encoder="tiny",
            fingerprint="abc",
            task="squad2",
            split="train",
            windows=len(self.windows),
            tokens=int(self.lengths.sum()),
            digest="def",
            settings={"length": 64, "stride": 16, "question": 24},
            pool=None,
            keep="fp16",
            first_layer=0,
            layers=LAYERS,
            width=WIDTH,
        )
        return replace(content, **changes)


class Count:
    """Notes the windows that an encoder computes, and fails after so many batches."""

    def __init__(self, patch: pytest.MonkeyPatch, batches: int | None = None) -> None:
        self.windows: list[int] = []
        real, calls = StreamStates.batch, iter(range(10**6))

        def batch(states: StreamStates, rows: IntArray) -> StateBatch:
            if next(calls) == batches:
                raise KeyboardInterrupt
            self.windows += rows.tolist()
            return real(states, rows)

        patch.setattr(StreamStates, "batch", batch)


def write_store(folder: Path, source: Source, **changes: Any) -> list[int]:  # noqa: ANN401 - any field
    """Write a store to its end; how far it was after every shard."""
    writer = StoreWriter(folder, source.content(**changes), source.lengths)
    return list(accumulate(shard.windows for shard in writer.write_all(source).shards))


def change_byte(path: Path, place: int = -1) -> None:
    """Turn every bit of a byte."""
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    """Leave the first half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
