"""How fast this machine encodes, writes, reads and learns: a few batches of the real thing, short and long ones."""

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from bertvision.amounts import in_layers
from bertvision.inference.computed_states import RowStates, StreamStates
from bertvision.inference.outputs import frozen_batches
from bertvision.inference.stopwatch import seconds_of
from bertvision.inference.stored_states import StoreStates
from bertvision.runs.fitting.extract import ExtractRequest, store_content
from bertvision.runs.fitting.frozen import FrozenTask
from bertvision.runs.planning.plan_costs import FLOAT, Rates, RowRates
from bertvision.store.codec import LARGEST_HALF, Keep, bytes_per_token
from bertvision.store.reader import StoreReader
from bertvision.store.room import bytes_on_disk
from bertvision.store.writer import StoreWriter
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import IntArray
from bertvision.training.fit import States, try_step
from bertvision.training.trainee import HeadSpec, Trainee

BATCHES = 5
"""Batches that are timed, from short windows to long ones; the median of their rates counts."""

BATCH_SECONDS = 0.4
"""About the most that a batch may take to encode; slow encoders get fewer windows."""

STORE_WINDOWS, STORE_BYTES = 64, 2**28
"""Most windows in the store that is tried, which is written and read back, and most bytes of their states in memory."""

READ_WINDOWS = 16
"""Windows in a batch that is read."""

HEAD_WINDOWS = 4
"""Windows in a step of a head."""

HEAD_SECONDS = 0.5
"""About the most that a head's step may take; of slow heads, one on fewer tokens counts."""

SAFE_HALF = LARGEST_HALF / 4
"""Largest state of a sample that is sure to fit float16 in the others, too."""


def measure_spans(frozen: FrozenTask, heads: Sequence[HeadSpec], layers: range, place: Path) -> Rates:
    """Time all that a fit of spans may do.

    Args:
        frozen: the task.
        heads: what learns.
        layers: from the lowest to the highest that they read.
        place: a folder on the disk that a store would be on; a small one is written there, and removed. It takes no
            more than the request allows, if that `has_room_to_try`.
    """
    windows, encoder = frozen.train.windows, frozen.encoder
    timer = _Timer(encoder.device, windows.lengths)
    stream = StreamStates(encoder, windows, frozen.passes, layers)
    most = round(BATCH_SECONDS / rough_rate(frozen, layers))
    steps = _spread(length_batches(windows.lengths, frozen.request.batch, seed=0), windows.lengths, most)
    passes = _spread(frozen_batches(windows.sizes, encoder.device), windows.lengths, most)
    encode_pass = timer.per_token(stream, passes)
    whole = StreamStates(encoder, windows, frozen.passes, range(encoder.depth + 1))
    rows = _few(steps, _tried_tokens(frozen, layers), windows.lengths)
    states = _window_states(stream, rows)
    largest = max(float(some.abs().max()) for some in states)
    half: Keep = "fp16" if largest < SAFE_HALF else "bf16"
    keeps: tuple[Keep, ...] = (half, "int8")
    stores = {keep: _measure_store(frozen, timer, rows, states, (keep, layers, place)) for keep in keeps}
    stores |= {"fp16": stores[half], "bf16": stores[half]}  # 16 bits are 16 bits: a store may be there already
    middle = steps[len(steps) // 2]
    heads_rate, slowest = _measure_heads(
        frozen, timer, heads, stream, (np.argsort(windows.lengths)[:1], middle[:1], middle[:HEAD_WINDOWS])
    )
    return Rates(
        encode_step=timer.per_token(stream, steps),
        encode_pass=encode_pass,
        encode_whole=timer.per_token(whole, passes) if layers[-1] < encoder.depth else encode_pass,
        heads=heads_rate,
        slowest=slowest,
        write={keep: found[0] for keep, found in stores.items()},
        read_cold={keep: found[1] for keep, found in stores.items()},
        read={keep: found[2] for keep, found in stores.items()},
        half=half,
    )


def has_room_to_try(frozen: FrozenTask, layers: range) -> bool:
    """Whether the disk that the request allows holds a window of every batch that is timed."""
    return _tried_tokens(frozen, layers) >= BATCHES * int(frozen.train.windows.lengths.max())


def measure_rows(frozen: FrozenTask, heads: Sequence[HeadSpec]) -> RowRates:
    """Time what a fit of labels, tags or scores does: encoding, and steps of the heads that are trained."""
    windows = frozen.train.windows
    layers = range(frozen.encoder.depth + 1)
    timer = _Timer(frozen.encoder.device, windows.lengths)
    stream = StreamStates(frozen.encoder, windows, frozen.passes, layers)
    most = round(BATCH_SECONDS / rough_rate(frozen, layers))
    batches = _spread(frozen_batches(windows.sizes, frozen.encoder.device), windows.lengths, most)
    rows = np.arange(min(frozen.request.batch, len(windows)))
    random = torch.Generator().manual_seed(0)
    numbers = torch.randn(len(rows), len(layers), frozen.shape.width, generator=random)  # as fast as real ones
    states = RowStates(numbers, frozen.encoder.device)
    one_each = _Timer(frozen.encoder.device, np.ones(len(windows), dtype=np.int64))
    # never on a few rows alone: a step of a large head costs much, however few they are
    heads_rate, slowest = _measure_heads(frozen, one_each, heads, states, (rows, rows))
    return RowRates(encode=timer.per_token(stream, batches), heads=heads_rate, slowest=slowest)


def rough_rate(frozen: FrozenTask, layers: range) -> float:
    """About how many seconds a token takes to encode, from one window of middle length; rather too many."""
    windows = frozen.train.windows
    stream = StreamStates(frozen.encoder, windows, frozen.passes, layers)
    middle = np.argsort(windows.lengths)[len(windows) // 2 :][:1]
    timer = _Timer(frozen.encoder.device, windows.lengths)
    timer.per_token(stream, [middle])  # the first pass is slower
    return timer.per_token(stream, [middle])


@final
class _Timer:
    """Times what is done with windows of so many tokens; waits for a GPU."""

    def __init__(self, device: torch.device, lengths: IntArray) -> None:
        self._device = device
        self._lengths = lengths

    def time(self, function: Callable[[], object]) -> float:
        """Seconds of a function."""
        return seconds_of(function, self._device)

    def per_token(self, states: States, batches: Iterable[IntArray]) -> float:
        """Seconds that the states of a token take: the median over batches."""
        return statistics.median(self.rate(partial(states.batch, rows), rows) for rows in batches)

    def rate(self, function: Callable[[], object], rows: IntArray) -> float:
        """Seconds per token of something that is done with some windows."""
        return self.time(function) / self.tokens(rows)

    def tokens(self, rows: IntArray) -> int:
        """Number of tokens of some windows."""
        return int(self._lengths[rows].sum())


def _spread(batches: Sequence[IntArray], lengths: IntArray, most: int) -> list[IntArray]:
    """A few batches, from short windows to long ones, so that each stands for as many tokens; of `most` tokens each."""
    ordered = sorted(batches, key=lambda rows: float(lengths[rows].mean()))
    ends = np.cumsum([lengths[rows].sum() for rows in ordered])
    places = np.searchsorted(ends, (np.arange(BATCHES) + 0.5) / BATCHES * ends[-1])
    return [ordered[place][: max(1, most // int(lengths[ordered[place]].max()))] for place in np.unique(places)]


def _tried_tokens(frozen: FrozenTask, layers: range) -> int:
    """Most tokens of the store that is tried, by memory and by the disk that the request allows."""
    count, width, allowed = len(layers), frozen.encoder.width, frozen.request.max_disk
    most = STORE_BYTES // (FLOAT * count * width)
    if allowed is None:
        return most
    beside = bytes_on_disk("int8", count, width, windows=STORE_WINDOWS, tokens=0)  # which has statistics, too
    return min(most, (allowed - beside) // bytes_per_token("fp16", count, width))


def _few(batches: Sequence[IntArray], most: int, lengths: IntArray) -> IntArray:
    """As many windows of each batch, so many in all that a small store can hold them, and `most` tokens."""
    count = min(STORE_WINDOWS, most // int(lengths[np.concatenate(batches)].max()))
    each = max(1, count // len(batches))
    return np.concatenate([rows[:each] for rows in batches])


def _window_states(stream: StreamStates, rows: IntArray) -> list[Tensor]:
    """The states of each window, (tokens, layers, width), float32."""
    found: list[Tensor] = []
    for begin in range(0, len(rows), READ_WINDOWS):
        hidden = stream.batch(rows[begin : begin + READ_WINDOWS]).padded
        states = hidden.states.transpose(1, 2)
        found += [some[mask].float().cpu() for some, mask in zip(states, hidden.mask, strict=True)]
    return found


def _measure_store(
    frozen: FrozenTask, timer: _Timer, rows: IntArray, states: Sequence[Tensor], how: tuple[Keep, range, Path]
) -> tuple[float, float, float]:
    """Seconds per token and layer to write a store, to read it from the disk, and to read it again."""
    keep, layers, place = how
    windows = frozen.train.windows
    lengths = windows.lengths[rows]
    request = ExtractRequest(
        **frozen.request.data_fields(),
        keep=keep,
        layers=in_layers(layers),
    )
    content = store_content(request, frozen.encoder, windows, split="train", pool=None)
    content = replace(content, windows=len(rows), tokens=int(lengths.sum()))
    with tempfile.TemporaryDirectory(prefix=".bertvision-plan-", dir=place) as folder:
        writer = StoreWriter(Path(folder), content, lengths)
        seconds = timer.time(lambda: writer.write_all(lambda some: torch.cat([states[row] for row in some])))
        _forget_pages(Path(folder))
        places = np.zeros(len(windows), dtype=np.int64)
        places[rows] = np.arange(len(rows))
        stored = StoreStates(
            StoreReader(Path(folder)),
            places,
            windows,
            layers=layers,
            options=frozen.passes,
            device=frozen.encoder.device,
        )
        ordered = rows[np.argsort(lengths, kind="stable")]
        batches = [ordered[begin : begin + READ_WINDOWS] for begin in range(0, len(ordered), READ_WINDOWS)]
        cold, warm = (timer.per_token(stored, batches) / len(layers) for _ in range(2))
    return seconds / int(lengths.sum()) / len(layers), max(cold, warm), warm


def _forget_pages(folder: Path) -> None:
    """Let the system forget what it has of files in memory, so that they are read from the disk."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _measure_heads(
    frozen: FrozenTask, timer: _Timer, heads: Sequence[HeadSpec], states: States, batches: Sequence[IntArray]
) -> tuple[float, tuple[str, float]]:
    """Seconds per token of a step of all heads, and the name and the share of the one that takes most of it.

    Each is tried on one batch after the other, as long as it is fast enough; the last one counts. First steps are
    slower, and on few tokens most of a step is what it takes however few they are. Those that differ by rate or seed
    alone take the same time.
    """
    data, plan = frozen.fit_data(states), frozen.plan()
    tried = [(states.batch(rows), rows) for rows in batches]
    for spec in heads[:1]:  # a program's first step loads a second's worth of torch, with which nobody is charged
        layers = {name: value for name, value in spec.options.items() if name == "layers"}  # that there are states of
        light = Trainee(HeadSpec(head="last_layer", options=layers), frozen.shape, device=frozen.encoder.device)
        try_step(light, data, plan, *tried[0])
    rates: dict[str, float] = {}
    by_name: dict[str, float] = {}
    for spec in heads:
        key = json.dumps([spec.head, dict(spec.options)], sort_keys=True, default=str)
        if key not in rates:
            trainee = Trainee(spec, frozen.shape, device=frozen.encoder.device)
            rates[key] = 0.0
            for batch, rows in tried:
                if rates[key] * timer.tokens(rows) < HEAD_SECONDS:
                    rates[key] = timer.rate(partial(try_step, trainee, data, plan, batch, rows), rows)
        by_name[spec.head] = by_name.get(spec.head, 0.0) + rates[key] * spec.fraction / frozen.request.largest
    total = sum(by_name.values())
    slowest = max(by_name, key=by_name.__getitem__, default="")
    return total, (slowest, by_name[slowest] / total if slowest else 0.0)
