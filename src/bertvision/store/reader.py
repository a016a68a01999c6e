"""StoreReader: states of any windows of a store, memory-mapped, straight into a padded batch."""

from functools import cached_property
from pathlib import Path
from typing import final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.store.codec import Statistics, decode
from bertvision.store.manifest import Content, file_digest, read_manifest
from bertvision.store.writer import load_statistics
from bertvision.tasks.examples import IntArray


@final
class StoreReader:
    """A finished store.

    Attributes:
        folder: where it is.
        manifest: what it holds.
    """

    def __init__(self, folder: Path) -> None:
        """Open a store.

        Raises:
            BertVisionError: it is none, or not finished.
        """
        self.folder = folder
        self.manifest = read_manifest(folder)
        self._per_shard = self.manifest.shards[0].windows if self.manifest.shards else 1
        self._shards: dict[int, dict[str, Tensor]] = {}

    def check(self, wanted: Content, command: str) -> None:
        """See that it holds what is wanted; more layers do no harm.

        Raises:
            BertVisionError: it holds something else; the message has the difference, and the command that makes the
                right one.
        """
        content = self.manifest.content
        odd = [
            difference
            for difference in content.differences(wanted)
            if difference.partition(" ")[0] not in {"keep", "layers", "first_layer", "encoder"}
        ]
        layers = range(content.first_layer, content.first_layer + content.layers)
        if wanted.first_layer not in layers or wanted.first_layer + wanted.layers - 1 not in layers:
            last = wanted.first_layer + wanted.layers - 1
            odd.append(f"it has layers {layers[0]}..{layers[-1]}, {wanted.first_layer}..{last} are asked for")
        if odd:
            raise BertVisionError(f"store {self.folder} does not fit: {'; '.join(odd)}. Make one that does: {command}")

    def batch(self, rows: IntArray) -> HiddenStates:
        """The states of some windows, in that order, padded to the longest: (windows, layers, tokens, width)."""
        content = self.manifest.content
        slices = [self._window(int(row)) for row in rows]
        longest = max(len(kept["states"]) for kept in slices)
        states = torch.zeros(len(rows), content.layers, longest, content.width)
        mask = torch.zeros(len(rows), longest, dtype=torch.bool)
        for number, kept in enumerate(slices):
            tokens = len(kept["states"])
            if "scales" in kept:
                states[number, :, :tokens] = decode(kept, self._statistics).transpose(0, 1)
            else:  # one pass: transposed and widened while it is copied
                states[number, :, :tokens] = kept["states"].transpose(0, 1)
            mask[number, :tokens] = True
        return HiddenStates(states, mask)

    def broken(self) -> list[str]:
        """What is wrong with its files, in words; empty if they are as they were written."""
        problems = []
        for shard in self.manifest.files:
            path = self.folder / shard.file
            if not path.is_file():
                problems.append(f"{shard.file} is missing")
            elif path.stat().st_size != shard.bytes:
                problems.append(f"{shard.file} has {path.stat().st_size:,} bytes, {shard.bytes:,} are expected")
            elif file_digest(path) != shard.sha256:
                problems.append(f"{shard.file} has another checksum than when it was written")
        return problems

    @cached_property
    def _statistics(self) -> Statistics:
        return load_statistics(self.folder)

    def _window(self, row: int) -> dict[str, Tensor]:
        shard = self._shard(row // self._per_shard)
        place = row % self._per_shard
        begin, end = shard["bounds"][place : place + 2].tolist()
        return {name: value[begin:end] for name, value in shard.items() if name != "bounds"}

    def _shard(self, number: int) -> dict[str, Tensor]:
        """A shard's tensors, mapped once: pages are read when they are touched."""
        if number not in self._shards:
            path = self.folder / self.manifest.shards[number].file
            try:
                with safe_open(path, framework="pt") as file:
                    self._shards[number] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            except (OSError, SafetensorError) as error:
                raise BertVisionError(
                    f"shard {path} cannot be read ({error}). See: bertvision store verify {self.folder}"
                ) from None
        return self._shards[number]
