"""StoreReader: reads the states of any windows of a memory-mapped store, padded or packed."""

from functools import cached_property, reduce
from itertools import pairwise
from pathlib import Path
from typing import final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bertvision.amounts import in_layers
from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.provenance import file_digest
from bertvision.store.buffers import Buffers
from bertvision.store.codec import Statistics, decode
from bertvision.store.manifest import Content, Shard, read_manifest
from bertvision.store.writer import load_statistics
from bertvision.tasks.examples import IntArray

_MAY_DIFFER = {"encoder", "keep", "first_layer", "layers"}
"""Fields of a content in which a store may differ from what is wanted; layers are compared by themselves."""


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
        self._ends = np.cumsum([shard.windows for shard in self.manifest.shards], dtype=np.int64)
        self._shards: dict[int, tuple[list[int], dict[str, Tensor]]] = {}
        self._buffers = Buffers()

    @property
    def layers(self) -> range:
        """Numbers of the layers that it holds."""
        return self.manifest.content.layer_numbers

    def check(self, wanted: Content, command: str) -> None:
        """Check that it holds what is wanted; it may hold more layers.

        Raises:
            BertVisionError: it holds something else; the message has the difference, and the command that makes the
                right one.
        """
        differences = self.manifest.content.differences(wanted)
        odd = [words for field, words in differences.items() if field not in _MAY_DIFFER]
        if not self._has(wanted.layer_numbers):
            odd.append(self._missed(wanted.layer_numbers))
        if odd:
            raise BertVisionError(f"store {self.folder} does not fit: {'; '.join(odd)}. Make one that does: {command}")

    def batch(self, rows: IntArray, layers: range | None = None) -> HiddenStates:
        """The states of some windows, in that order, padded to the longest, as float32 on the CPU.

        Memory is reused once no tensor refers to it any more; see `Buffers`.

        Args:
            rows: which windows.
            layers: consecutive layers of the store; None reads all. Other layers are not read from disk.
        """
        layers = self.layers if layers is None else layers
        windows = self._windows(rows, layers)
        lengths = torch.tensor([len(window["states"]) for window in windows])
        longest = int(lengths.max())
        states = self._buffers.take((len(rows), len(layers), longest, self.manifest.content.width))
        statistics = self._statistics(layers, states.device)
        for place, window in zip(states.transpose(1, 2), windows, strict=True):  # (tokens, layers, width)
            tokens = len(window["states"])
            decode(window, statistics, out=place[:tokens])  # one pass: widened and transposed while it is copied
            place[tokens:] = 0.0
        return HiddenStates(states, torch.arange(longest) < lengths[:, None])

    def packed(
        self, rows: IntArray, layers: range | None = None, *, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """The states of some windows end to end, (layers, tokens, width), on a device.

        They are copied to a GPU asynchronously in the precision of the store, and decoded there.

        Args:
            rows: which windows.
            layers: as in `batch`.
            device: where they are needed.
            dtype: in which precision.
        """
        layers = self.layers if layers is None else layers
        kept = self.kept(rows, layers, pinned=device.type == "cuda")
        moved = {name: value.to(device, non_blocking=True) for name, value in kept.items()}
        tokens, _, width = kept["states"].shape
        states = torch.empty(len(layers), tokens, width, device=device, dtype=dtype)
        decode(moved, self._statistics(layers, device), out=states.transpose(0, 1))
        return states

    def single(self, rows: IntArray, layers: range | None = None) -> Tensor:
        """The states of some windows of a store with one row per window, (windows, layers, width), as float32.

        Args:
            rows: which windows.
            layers: as in `batch`.
        """
        layers = self.layers if layers is None else layers
        chosen, statistics = self._places(layers), self._statistics(layers, torch.device("cpu"))
        states = torch.empty(len(rows), len(layers), self.manifest.content.width)
        numbers, places = self._find(rows)
        order = np.argsort(numbers, kind="stable")
        found, begins = np.unique(numbers[order], return_index=True)
        bounds = pairwise([*begins.tolist(), len(rows)])
        for number, (begin, end) in zip(found.tolist(), bounds, strict=True):  # windows are too small for a step each
            mine = order[begin:end]
            within = torch.from_numpy(places[mine])
            kept = {name: value[within, chosen] for name, value in self._shard(number)[1].items()}
            states[torch.from_numpy(mine)] = decode(kept, statistics)
        return states

    def kept(self, rows: IntArray, layers: range | None = None, *, pinned: bool = False) -> dict[str, Tensor]:
        """The encoded states of some windows end to end, as `codec.decode` takes them.

        If shards differ in precision (see `codec.precision_for`), all are converted to float32, which rounds nothing.

        Args:
            rows: which windows.
            layers: as in `batch`.
            pinned: whether to use pinned memory, for asynchronous copies to a GPU.
        """
        windows = self._windows(rows, self.layers if layers is None else layers)
        found = {}
        for name, first in windows[0].items():
            parts = [window[name] for window in windows]
            shape = (sum(map(len, parts)), *first.shape[1:])
            dtype = reduce(torch.promote_types, {part.dtype for part in parts})
            found[name] = torch.cat(parts, out=torch.empty(shape, dtype=dtype, pin_memory=pinned))
        return found

    def broken(self) -> list[str]:
        """A message for every missing or changed file; empty if all are as they were written."""
        problems = []
        for shard in self.manifest.files:
            problem = self._problem(shard)
            if problem is None and file_digest(self.folder / shard.file) != shard.sha256:
                problem = "has another checksum than when it was written"
            if problem is not None:
                problems.append(f"{shard.file} {problem}")
        return problems

    def _problem(self, shard: Shard) -> str | None:
        """Why a file is not the one that was written, as far as its size tells; None if it may be."""
        path = self.folder / shard.file
        if not path.is_file():
            return "is missing"
        size = path.stat().st_size
        return None if size == shard.bytes else f"has {size:,} bytes, {shard.bytes:,} are expected"

    def _has(self, layers: range) -> bool:
        return layers[0] in self.layers and layers[-1] in self.layers

    def _missed(self, layers: range) -> str:
        return f"it has layers {in_layers(self.layers)}, {in_layers(layers)} are asked for"

    def _statistics(self, layers: range, device: torch.device) -> Statistics | None:
        """The statistics of these layers on a device; None unless the store is int8."""
        if self.manifest.content.keep != "int8":
            return None
        if device not in self._moved:
            whole = self._moved[torch.device("cpu")]
            self._moved[device] = Statistics(whole.mean.to(device), whole.deviation.to(device))
        found = self._moved[device]
        chosen = self._places(layers)
        return Statistics(found.mean[chosen], found.deviation[chosen])

    @cached_property
    def _moved(self) -> dict[torch.device, Statistics]:
        """The statistics of all layers, by device."""
        return {torch.device("cpu"): load_statistics(self.folder)}

    def _places(self, layers: range) -> slice:
        """The slice of these layers among those of the store."""
        if not self._has(layers):
            raise BertVisionError(f"store {self.folder} does not fit: {self._missed(layers)}.")
        return slice(layers[0] - self.layers[0], layers[-1] - self.layers[0] + 1)

    def _windows(self, rows: IntArray, layers: range) -> list[dict[str, Tensor]]:
        """Views of the encoded states of some windows, by name; nothing is read from disk yet."""
        chosen = self._places(layers)
        numbers, places = self._find(rows)
        found = []
        for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
            bounds, tensors = self._shard(number)
            window = slice(bounds[place], bounds[place + 1])
            found.append({name: value[window, chosen] for name, value in tensors.items()})
        return found

    def _find(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The shard of every window, and its place in it."""
        numbers: IntArray = np.searchsorted(self._ends, rows, side="right")
        return numbers, rows - np.concatenate([[0], self._ends])[numbers]

    def _shard(self, number: int) -> tuple[list[int], dict[str, Tensor]]:
        """A shard's bounds and tensors, mapped once: pages are read when they are touched."""
        if number not in self._shards:
            shard = self.manifest.shards[number]
            path, problem, tensors = self.folder / shard.file, self._problem(shard), {}
            try:
                if problem is None:
                    with safe_open(path, framework="pt") as file:
                        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            except (OSError, SafetensorError) as error:
                problem = str(error)
            if problem is not None:
                raise BertVisionError(
                    f"shard {path} cannot be read ({problem}). See: bertvision store verify {self.folder}"
                )
            self._shards[number] = tensors.pop("bounds").tolist(), tensors
        return self._shards[number]
