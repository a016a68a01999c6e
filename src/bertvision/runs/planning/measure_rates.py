"""measure_spans, measure_rows: time a few real batches of encoding, storing and training heads on this machine."""

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
"""Number of batches to time, from short windows to long ones; the result is the median of their rates."""

BATCH_SECONDS = 0.4
"""About the longest time to encode a batch; for slow encoders batches are cut to fewer windows."""

STORE_WINDOWS, STORE_BYTES = 64, 2**28
"""Limits of the trial store that is written and read: its windows, and the bytes of their float32 states in memory."""

READ_WINDOWS = 16
"""Windows per batch in reading the trial store."""

HEAD_WINDOWS = 4
"""Most windows in a timed training step of a head."""

HEAD_SECONDS = 0.5
"""About the longest time of a head's training step; slow heads are timed on fewer tokens."""

SAFE_HALF = LARGEST_HALF / 4
"""If the largest absolute state of a sample is below this, all others are assumed to fit into float16, too."""


def measure_spans(frozen: FrozenTask, heads: Sequence[HeadSpec], layers: range, place: Path) -> Rates:
    """Time everything that a fit of spans may do: encode, write and read a store, train heads.

    Args:
        frozen: the task.
        heads: the heads.
        layers: from the lowest to the highest layer that any head reads.
        place: a folder on the disk that a store would be on; a small trial store is written there, and removed. It is
            within the limit of the request (`max_disk`) if `has_room_to_try` says so.
    """
    windows, encoder = frozen.train.windows, frozen.encoder
    timer = _Timer(encoder.device, windows.lengths)
    stream = StreamStates(encoder, windows, frozen.passes, layers)
    most = round(BATCH_SECONDS / rough_rate(frozen, layers))
    steps = _spread(length_batches(windows.lengths, frozen.request.batch, seed=0), windows.lengths, most)
    passes = _spread(frozen_batches(windows.sizes, encoder.device), windows.lengths, most)
    encode_pass = timer.per_token(stream, passes)
    whole = StreamStates(encoder, windows, frozen.passes, range(encoder.depth + 1))
    rows = _trial_rows(steps, _trial_tokens(frozen, layers), windows.lengths)
    states = _window_states(stream, rows)
    largest = max(float(window.abs().max()) for window in states)
    half: Keep = "fp16" if largest < SAFE_HALF else "bf16"
    keeps: tuple[Keep, ...] = (half, "int8")
    stores = {keep: _measure_store(frozen, timer, rows, states, (keep, layers, place)) for keep in keeps}
    stores |= {"fp16": stores[half], "bf16": stores[half]}  # an existing store may have either; both take the same time
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
        write={keep: seconds[0] for keep, seconds in stores.items()},
        read_cold={keep: seconds[1] for keep, seconds in stores.items()},
        read={keep: seconds[2] for keep, seconds in stores.items()},
        half=half,
    )


def has_room_to_try(frozen: FrozenTask, layers: range) -> bool:
    """Whether the request's `max_disk` has room for a trial store with a window of every timed batch."""
    return _trial_tokens(frozen, layers) >= BATCHES * int(frozen.train.windows.lengths.max())


def measure_rows(frozen: FrozenTask, heads: Sequence[HeadSpec], layers: range) -> RowRates:
    """Time what a fit of labels, tags or scores does: encode texts, and train heads on their rows.

    Args:
        frozen: the task.
        heads: the heads that are trained.
        layers: from the lowest to the highest layer that any head reads, solved ones included.
    """
    windows = frozen.train.windows
    timer = _Timer(frozen.encoder.device, windows.lengths)
    stream = StreamStates(frozen.encoder, windows, frozen.passes, layers)
    most = round(BATCH_SECONDS / rough_rate(frozen, layers))
    batches = _spread(frozen_batches(windows.sizes, frozen.encoder.device), windows.lengths, most)
    rows = np.arange(min(frozen.request.batch, len(windows)))
    random = torch.Generator().manual_seed(0)
    values = torch.randn(len(rows), len(layers), frozen.shape.width, generator=random)  # as fast as real states
    states = RowStates(values, frozen.encoder.device, lowest=layers[0])
    per_row = _Timer(frozen.encoder.device, np.ones(len(windows), dtype=np.int64))
    # always on a whole batch: a step of a large head takes long however few rows there are
    heads_rate, slowest = _measure_heads(frozen, per_row, heads, states, (rows, rows))
    return RowRates(encode=timer.per_token(stream, batches), heads=heads_rate, slowest=slowest)


def rough_rate(frozen: FrozenTask, layers: range) -> float:
    """Rough seconds to encode a token, from one window of median length; rather too many than too few."""
    windows = frozen.train.windows
    stream = StreamStates(frozen.encoder, windows, frozen.passes, layers)
    middle = np.argsort(windows.lengths)[len(windows) // 2 :][:1]
    timer = _Timer(frozen.encoder.device, windows.lengths)
    timer.per_token(stream, [middle])  # the first pass is slower
    return timer.per_token(stream, [middle])


@final
class _Timer:
    """Times work on windows with these numbers of tokens, (windows,); synchronises with a GPU."""

    def __init__(self, device: torch.device, lengths: IntArray) -> None:
        self._device = device
        self._lengths = lengths

    def time(self, function: Callable[[], object]) -> float:
        """Seconds that a call of the function takes."""
        return seconds_of(function, self._device)

    def per_token(self, states: States, batches: Iterable[IntArray]) -> float:
        """Seconds per token to get the states of batches from a source: the median over the batches."""
        return statistics.median(self.rate(partial(states.batch, rows), rows) for rows in batches)

    def rate(self, function: Callable[[], object], rows: IntArray) -> float:
        """Seconds per token of a function that processes the windows at `rows`."""
        return self.time(function) / self.tokens(rows)

    def tokens(self, rows: IntArray) -> int:
        """Number of tokens in the windows at `rows`."""
        return int(self._lengths[rows].sum())


def _spread(batches: Sequence[IntArray], lengths: IntArray, most: int) -> list[IntArray]:
    """Pick `BATCHES` batches at equal steps of all tokens sorted by length, and cut each to about `most` tokens."""
    ordered = sorted(batches, key=lambda rows: float(lengths[rows].mean()))
    ends = np.cumsum([lengths[rows].sum() for rows in ordered])
    picked = np.searchsorted(ends, (np.arange(BATCHES) + 0.5) / BATCHES * ends[-1])
    return [ordered[number][: max(1, most // int(lengths[ordered[number]].max()))] for number in np.unique(picked)]


def _trial_tokens(frozen: FrozenTask, layers: range) -> int:
    """Most tokens in the trial store, by memory and by the request's `max_disk`."""
    count, width, allowed = len(layers), frozen.encoder.width, frozen.request.max_disk
    most = STORE_BYTES // (FLOAT * count * width)
    if allowed is None:
        return most
    overhead = bytes_on_disk("int8", count, width, windows=STORE_WINDOWS, tokens=0)  # int8 has statistics, too
    return min(most, (allowed - overhead) // bytes_per_token("fp16", count, width))


def _trial_rows(batches: Sequence[IntArray], most: int, lengths: IntArray) -> IntArray:
    """The windows of the trial store: equally many of each batch, within `STORE_WINDOWS` and `most` tokens."""
    count = min(STORE_WINDOWS, most // int(lengths[np.concatenate(batches)].max()))
    each = max(1, count // len(batches))
    return np.concatenate([rows[:each] for rows in batches])


def _window_states(stream: StreamStates, rows: IntArray) -> list[Tensor]:
    """The states of each window, (tokens, layers, width), float32 on the CPU."""
    windows: list[Tensor] = []
    for begin in range(0, len(rows), READ_WINDOWS):
        hidden = stream.batch(rows[begin : begin + READ_WINDOWS]).padded
        states = hidden.states.transpose(1, 2)
        windows += [window[mask].float().cpu() for window, mask in zip(states, hidden.mask, strict=True)]
    return windows


def _measure_store(
    frozen: FrozenTask, timer: _Timer, rows: IntArray, states: Sequence[Tensor], settings: tuple[Keep, range, Path]
) -> tuple[float, float, float]:
    """Seconds per token and layer to write a store, to read it from disk, and to read it from the page cache."""
    keep, layers, place = settings
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
        seconds = timer.time(lambda: writer.write_all(lambda stored: torch.cat([states[row] for row in stored])))
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
    """Drop a folder's files from the page cache, where the system can do so, so that they are read from disk."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _measure_heads(
    frozen: FrozenTask, timer: _Timer, heads: Sequence[HeadSpec], states: States, batches: Sequence[IntArray]
) -> tuple[float, tuple[str, float]]:
    """Seconds per token of a training step of all heads, and the slowest kind of head with its share of them.

    Each head is timed on one batch after the other while it is fast enough (`HEAD_SECONDS`), and the last time counts:
    first steps are slower, and on few tokens most of a step is overhead. Heads that differ only in training options,
    such as learning rate or seed, are timed once.
    """
    data, plan = frozen.fit_data(states), frozen.plan()
    timed = [(states.batch(rows), rows) for rows in batches]
    for spec in heads[:1]:  # warm up: the first step of a process spends about a second on loading parts of torch
        # only the layers of the spec are sure to be in the states
        layers = {name: value for name, value in spec.options.items() if name == "layers"}
        light = Trainee(HeadSpec(head="last_layer", options=layers), frozen.shape, device=frozen.encoder.device)
        try_step(light, data, plan, *timed[0])
    rates: dict[str, float] = {}
    by_name: dict[str, float] = {}
    for spec in heads:
        key = json.dumps([spec.head, dict(spec.options)], sort_keys=True, default=str)
        if key not in rates:
            trainee = Trainee(spec, frozen.shape, device=frozen.encoder.device)
            rates[key] = 0.0
            for batch, rows in timed:
                if rates[key] * timer.tokens(rows) < HEAD_SECONDS:
                    rates[key] = timer.rate(partial(try_step, trainee, data, plan, batch, rows), rows)
        by_name[spec.head] = by_name.get(spec.head, 0.0) + rates[key] * spec.fraction / frozen.request.largest
    total = sum(by_name.values())
    slowest = max(by_name, key=by_name.__getitem__, default="")
    return total, (slowest, by_name[slowest] / total if slowest else 0.0)
