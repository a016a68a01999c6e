"""estimate: seconds and bytes of a frozen pass, extraction, tuning and heads, on different numbers of GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bertvision.bench.cost import (
    ROWS,
    EncoderShape,
    Learning,
    disk_bytes,
    operations_of,
    step_seconds,
    token_seconds,
    window_operations,
)
from bertvision.bench.hardware import NODE, Hardware
from bertvision.bench.simulate import Shards, draw_shards, extract_shares, shard_sizes, step_shares
from bertvision.store.writer import shard_groups
from bertvision.tasks.examples import FloatArray, IntArray

HOUR = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work whose cost is estimated.

    Attributes:
        shape: shape of the encoder.
        sample: lengths in tokens from which those of the windows are drawn.
        windows: number of windows.
        keep: number format of a store.
        learning: work of a training step of the encoder; None for no tuning.
        learn: the value of `--learn`, for the title.
        heads: names of heads, and the number of states each of them reads per token: layers · width.
        epochs: epochs of tuning, and of heads.
        batch: windows per step and GPU.
    """

    shape: EncoderShape
    sample: IntArray
    windows: int
    keep: Literal["fp16", "int8"] = "fp16"
    learning: Learning | None = None
    learn: str = "none"
    heads: Sequence[tuple[str, int]] = ()
    epochs: float = 1.0
    batch: int = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The estimated cost of one kind of work on a number of GPUs.

    Attributes:
        what: the work, in words.
        gpus: number of GPUs.
        seconds: wall-clock time.
        waiting: share of the time in which a GPU waits, on average: for the slowest GPU, and for the all-reduce.
    """

    what: str
    gpus: int
    seconds: float
    waiting: float

    @property
    def gpu_hours(self) -> float:
        """Hours of all GPUs together."""
        return self.gpus * self.seconds / HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """The estimated cost of some work.

    Attributes:
        windows: number of windows.
        tokens: tokens of all windows.
        operations: operations of a frozen pass over them.
        rows: seconds by kind of work and number of GPUs.
        bytes: bytes on disk by storage format.
    """

    windows: int
    tokens: int
    operations: float
    rows: Sequence[Row]
    bytes: Mapping[str, int]


def estimate(work: Work, hardware: Hardware, gpus: Sequence[int]) -> CostEstimate:
    """Estimate the cost of work on each of these numbers of GPUs."""
    shards = draw_shards(work.sample, work.windows)
    per_token, per_pair = operations_of(work.shape)
    operations = shards.tokens * per_token + shards.pairs * per_pair  # (shards,)
    written = _written(work, shards)
    rows = []
    for number in gpus:
        rows += [_extracted(one, operations, hardware, number) for one in written]
        if work.learning is not None:
            rows.append(_tuned(work, work.learning, shards, hardware, number))
    if work.heads:
        rows += _fitted(work, shards, operations, hardware)
    return CostEstimate(
        windows=work.windows,
        tokens=int(shards.tokens.sum()),
        operations=float(operations.sum()),
        rows=rows,
        bytes=disk_bytes(work.shape, shards.load),
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """A frozen pass and its output: groups of shards that are computed together, and bytes written."""

    what: str
    groups: Sequence[range]
    bytes: int


def _written(work: Work, shards: Shards) -> list[_Written]:
    """The pass without output, with the states of all tokens, and with one row per window."""
    kept = disk_bytes(work.shape, shards.load)
    layers, width = work.shape.depth + 1, work.shape.width
    groups = shard_groups(shards.tokens, layers, width)
    return [
        _Written("frozen pass", groups, 0),
        _Written(f"extract, {work.keep}", groups, kept[f"store, {work.keep}"]),
        _Written("extract, one row per window", shard_groups(shard_sizes(work.windows), layers, width), kept[ROWS]),
    ]


def _extracted(written: _Written, operations: FloatArray, hardware: Hardware, gpus: int) -> Row:
    shares = extract_shares(operations, written.groups, processes=gpus)
    seconds = shares.slowest / hardware.rate + written.bytes / hardware.disks(gpus)
    waiting = (shares.slowest - shares.mean) / hardware.rate / seconds
    return Row(what=written.what, gpus=gpus, seconds=seconds, waiting=waiting)


def _fitted(work: Work, shards: Shards, operations: FloatArray, hardware: Hardware) -> list[Row]:
    """Training all heads together in one process, on states computed anew in every epoch, or read from a store."""
    load = shards.load
    heads = load.tokens * sum(hardware.heads[name] * numbers for name, numbers in work.heads)
    sources = {
        "heads, streamed": float(operations.sum()) / hardware.rate,
        f"heads, from a store of {work.keep}": disk_bytes(work.shape, load)[f"store, {work.keep}"] / hardware.disk,
    }
    return [
        Row(what=what, gpus=1, seconds=work.epochs * (seconds + heads), waiting=0.0)
        for what, seconds in sources.items()
    ]


def _tuned(work: Work, learning: Learning, shards: Shards, hardware: Hardware, gpus: int) -> Row:
    """Tuning with data parallelism: each batch is divided among all GPUs."""
    batch = work.batch * gpus
    operations = partial(window_operations, work.shape, learning=learning)
    shares = step_shares(work.sample, work.windows, operations, batch=batch, processes=gpus)
    steps = -(-work.windows // batch)
    memory_bound = shards.load.tokens / gpus * token_seconds(work.shape, learning, hardware)
    busy = shares.mean / hardware.rate + memory_bound + steps * step_seconds(work.shape, learning, hardware)
    fixed = steps * step_seconds(work.shape, learning, hardware, gpus)
    seconds = shares.slowest / hardware.rate + memory_bound + fixed
    what = f"tune, {work.learn}, {work.epochs:g} epoch{'s' * (work.epochs != 1)}"
    return Row(what=what, gpus=gpus, seconds=seconds * work.epochs, waiting=1 - busy / seconds)


def assumptions(work: Work, hardware: Hardware) -> list[str]:
    """The assumptions of the estimate, in sentences."""
    ring = f"{hardware.inside / 1e9:g} GB/s within {NODE} GPUs and {hardware.between / 1e9:g} GB/s beyond"
    return [
        f"{hardware.name}: {hardware.rate / 1e12:.4g} TFLOP/s, {hardware.utilisation:.1%} of {hardware.peak / 1e12:g}.",
        f"Tuning: {work.batch} windows per GPU and step; gradients go round a ring at {ring}, none of it hidden.",
        f"Disks: {hardware.disk / 1e9:g} GB/s for every {NODE} GPUs; reading and writing are not hidden either.",
        "Extraction shares out whole groups of shards; lengths are drawn, not those of real windows.",
        "Heads: one process; a step as measured on 16 windows, grown with tokens, layers and width: at most that.",
    ]
