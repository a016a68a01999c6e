"""What a fit costs in time, disk and memory by where its states come from: arithmetic on what was measured."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bertvision.amounts import in_bytes, in_layers
from bertvision.store.codec import Keep, bytes_per_token

JUDGED = 1 / 3
"""What outputs alone cost of a step of learning: there is no way back through the heads."""

FLOAT = 4
"""Bytes of a number in memory."""

COPIES = 2
"""States are in memory about so often: layer by layer and side by side, or as they are and as they are kept."""

FREE_SHARE = 0.9
"""How much of what the disk has left a store may take: a full disk stops more than a fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where states come from.

    Attributes:
        kind: `stream` computes them for every batch, `store` reads them from disk, `memory` keeps one row per text.
        keep: how a store keeps them.
        layers: which it keeps, such as `0..6`.
        folder: folder of a store that is there already; None makes one in the run's folder.
    """

    kind: Literal["stream", "store", "memory"]
    keep: Keep | None = None
    layers: str | None = None
    folder: str | None = None

    @property
    def words(self) -> str:
        """What it is called in a table."""
        if self.kind == "store":
            return f"{self.folder or 'store'}, {self.keep}"
        return {"stream": "stream", "memory": "in memory"}[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What this machine takes, in seconds per token.

    Attributes:
        encode_step: seconds to encode a batch of a step, as deep as heads read.
        encode_pass: seconds to encode a batch of a pass that learns nothing, as deep as heads read.
        encode_whole: the same with all layers.
        heads: for a step of all heads, without the encoder.
        slowest: the head that takes most of it, and its share; empty where no head is trained.
        write: seconds to write one layer, by how it is kept.
        read: seconds to read one layer from a store that the system has in memory.
        read_cold: seconds to read one layer from the disk itself.
        half: which kind of 16 bits the states fit into.
    """

    encode_step: float
    encode_pass: float
    encode_whole: float
    heads: float
    slowest: tuple[str, float]
    write: Mapping[Keep, float]
    read: Mapping[Keep, float]
    read_cold: Mapping[Keep, float]
    half: Keep = "fp16"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRates:
    """What this machine takes where a text is one row, in seconds.

    Attributes:
        encode: per token.
        heads: per row, for a step of all heads that are trained.
        slowest: as above.
    """

    encode: float
    heads: float
    slowest: tuple[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes that may be taken; None is no limit.

    Attributes:
        disk: bytes on disk that the user allows.
        free_disk: bytes that the disk has left.
        memory: bytes of memory that the user allows.
        free_memory: bytes of memory that the machine has left.
    """

    disk: int | None = None
    free_disk: int | None = None
    memory: int | None = None
    free_memory: int | None = None

    def disk_problem(self, needed: float) -> str | None:
        """Why a store of so many bytes cannot be; None if it can."""
        if self.disk is not None and needed > self.disk:
            return f"--max-disk allows {in_bytes(self.disk)}"
        if self.free_disk is not None and needed > FREE_SHARE * self.free_disk:
            return f"the disk has {in_bytes(self.free_disk)} left"
        return None

    def memory_problem(self, needed: float) -> str | None:
        """Why so many bytes cannot be in memory; None if they can."""
        if self.memory is not None and needed > self.memory:
            return f"--max-memory allows {in_bytes(self.memory)}"
        if self.free_memory is not None and needed > self.free_memory:
            return f"the machine has {in_bytes(self.free_memory)} left"
        return None

    @property
    def most_memory(self) -> float:
        """The tighter limit to memory."""
        return min((limit for limit in (self.memory, self.free_memory) if limit is not None), default=float("inf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A source with what it would cost.

    Attributes:
        source: what is meant.
        encode: seconds of the encoder.
        write: seconds of writing a store.
        read: seconds of reading it.
        heads: seconds of the heads, the same for all.
        disk: bytes that it takes, beside what is there already.
        memory: bytes of states at a time, about; what heads compute comes on top.
        problem: why it cannot be taken.
    """

    source: Source
    encode: float = 0.0
    write: float = 0.0
    read: float = 0.0
    heads: float = 0.0
    disk: int = 0
    memory: int = 0
    problem: str | None = None

    @property
    def seconds(self) -> float:
        """All in all."""
        return self.encode + self.write + self.read + self.heads


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanWork:
    """What a fit of spans passes over.

    Attributes:
        learnt: tokens of all steps.
        judged: tokens of all passes over held-out and dev examples.
        stored: tokens of all splits, which a store keeps.
        layers: from the lowest to the highest that some head reads.
        depth: the encoder's last layer.
        width: numbers per token and layer.
        batch: most tokens in a batch.
        shard: tokens in a shard of a store.
    """

    learnt: float
    judged: float
    stored: float
    layers: range
    depth: int
    width: int
    batch: int
    shard: int

    @property
    def streamed(self) -> float:
        """Tokens that a stream encodes."""
        return self.learnt + self.judged

    @property
    def whole(self) -> range:
        """All layers."""
        return range(self.depth + 1)

    @property
    def stream_memory(self) -> int:
        """Bytes of a batch's states."""
        return self._memory(self.batch, len(self.layers))

    def stream(self, rates: Rates, limits: Limits) -> Candidate:
        """Every batch encoded when it is needed."""
        return Candidate(
            source=Source(kind="stream"),
            encode=self.learnt * rates.encode_step + self.judged * rates.encode_pass,
            heads=self._heads(rates),
            memory=self.stream_memory,
            problem=limits.memory_problem(self.stream_memory),
        )

    def new_store(self, rates: Rates, limits: Limits, keep: Keep, layers: range) -> Candidate:
        """Everything encoded once and written, then read for every batch."""
        disk = self.disk(keep, layers)
        memory = self._memory(max(self.batch, self.shard), len(layers))
        encode = rates.encode_whole if layers == self.whole else rates.encode_pass
        return Candidate(
            source=Source(kind="store", keep=keep, layers=in_layers(layers)),
            encode=self.stored * encode,
            write=self.stored * len(layers) * rates.write[keep],
            read=self._read(rates, limits, keep, layers),
            heads=self._heads(rates),
            disk=disk,
            memory=memory,
            problem=limits.disk_problem(disk) or limits.memory_problem(memory),
        )

    def disk(self, keep: Keep, layers: range) -> int:
        """Bytes of a store."""
        return round(self.stored * bytes_per_token(keep, len(layers), self.width))

    def old_store(self, rates: Rates, limits: Limits, folder: str, keep: Keep, layers: range) -> Candidate:
        """A finished store, read for every batch."""
        memory = self._memory(self.batch, len(layers))
        return Candidate(
            source=Source(kind="store", keep=keep, layers=in_layers(layers), folder=folder),
            read=self._read(rates, limits, keep, layers),
            heads=self._heads(rates),
            memory=memory,
            problem=limits.memory_problem(memory),
        )

    def _heads(self, rates: Rates) -> float:
        return (self.learnt + JUDGED * self.judged) * rates.heads

    def _read(self, rates: Rates, limits: Limits, keep: Keep, layers: range) -> float:
        """Seconds; of a store that is larger than memory, pages come from the disk again in every epoch."""
        cold = limits.free_memory is not None and self.disk(keep, layers) > limits.free_memory
        return self.streamed * len(layers) * (rates.read_cold if cold else rates.read)[keep]

    def _memory(self, tokens: int, layers: int) -> int:
        return tokens * layers * self.width * FLOAT * COPIES


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWork:
    """What a fit of labels, tags or scores passes over: one row per text.

    Attributes:
        tokens: the tokens that are encoded, once.
        learnt: rows of all steps.
        judged: rows of all passes over held-out and dev examples.
        rows: rows of all parts.
        numbers: per row.
        copied: numbers of all rows that solving the largest convex head copies; 0 if none is solved.
        parts: parts of a row, each as wide as the encoder.
    """

    tokens: float
    learnt: float
    judged: float
    rows: int
    numbers: int
    copied: int = 0
    parts: int = 1

    @property
    def memory(self) -> int:
        """Bytes of all rows, and of the copies."""
        return (self.rows * self.numbers + COPIES * self.copied) * FLOAT

    def in_memory(self, rates: RowRates, limits: Limits) -> Candidate:
        """Everything encoded once."""
        return Candidate(
            source=Source(kind="memory"),
            encode=self.tokens * rates.encode,
            heads=(self.learnt + JUDGED * self.judged) * rates.heads,
            memory=self.memory,
            problem=limits.memory_problem(self.memory),
        )
