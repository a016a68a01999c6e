"""The cost of a fit in time, disk and memory by the source of its states, calculated from measured rates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bertvision.amounts import in_bytes, in_layers
from bertvision.store.codec import Keep, bytes_per_token

FORWARD_COST = 1 / 3
"""Time of a forward pass of heads as a share of a training step, which has a backward pass, too."""

FLOAT = 4
"""Bytes of a float32 number."""

COPIES = 2
"""About how many copies of states are in memory: single layers and stacked ones, or original and converted ones."""

FREE_SHARE = 0.9
"""Share of the free disk space that a store may take: a full disk would break more than a fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of states.

    Attributes:
        kind: `stream` computes them for every batch, `store` reads them from disk, `memory` keeps one row per text.
        keep: number format of a store; None for other sources.
        layers: layers in a store, such as `0..6`; None for other sources.
        folder: folder of an existing store; None makes a store in the run's folder.
    """

    kind: Literal["stream", "store", "memory"]
    keep: Keep | None = None
    layers: str | None = None
    folder: str | None = None

    @property
    def words(self) -> str:
        """Its name in a table."""
        if self.kind == "store":
            return f"{self.folder or 'store'}, {self.keep}"
        return {"stream": "stream", "memory": "in memory"}[self.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Measured times of a fit of spans, in seconds per token.

    Attributes:
        encode_step: to encode training batches, up to the last layer that heads read.
        encode_pass: to encode the batches of a pass without training, up to the same layer.
        encode_whole: to encode the same batches with all layers.
        heads: a training step of all heads, without the encoder.
        slowest: name of the slowest kind of head, and its share of `heads`; an empty name if no head is trained.
        write: to convert and write one layer to a store, by number format.
        read: to read one layer from a store in the page cache, by number format.
        read_cold: to read one layer from disk, by number format.
        half: 16-bit format that the states fit into.
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
    """Measured times of a fit of labels, tags or scores, in seconds.

    Attributes:
        encode: to encode a token.
        heads: a training step of all heads that are not solved, per row.
        slowest: as in `Rates`.
    """

    encode: float
    heads: float
    slowest: tuple[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of disk and memory in bytes; None is no limit.

    Attributes:
        disk: disk space that the user allows.
        free_disk: free disk space.
        memory: memory that the user allows.
        free_memory: free memory of the machine.
    """

    disk: int | None = None
    free_disk: int | None = None
    memory: int | None = None
    free_memory: int | None = None

    def disk_problem(self, needed: float) -> str | None:
        """Why a store of so many bytes does not fit on disk; None if it does."""
        if self.disk is not None and needed > self.disk:
            return f"--max-disk allows {in_bytes(self.disk)}"
        if self.free_disk is not None and needed > FREE_SHARE * self.free_disk:
            return f"the disk has {in_bytes(self.free_disk)} left"
        return None

    def memory_problem(self, needed: float) -> str | None:
        """Why so many bytes do not fit into memory; None if they do."""
        if self.memory is not None and needed > self.memory:
            return f"--max-memory allows {in_bytes(self.memory)}"
        if self.free_memory is not None and needed > self.free_memory:
            return f"the machine has {in_bytes(self.free_memory)} left"
        return None

    @property
    def most_memory(self) -> float:
        """The lower limit of memory; infinity without limits."""
        return min((limit for limit in (self.memory, self.free_memory) if limit is not None), default=float("inf"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A source with its estimated costs.

    Attributes:
        source: the source.
        encode: seconds of the encoder.
        write: seconds of writing a store.
        read: seconds of reading it.
        heads: seconds of the heads, the same for all sources.
        disk: additional bytes on disk.
        memory: approximate bytes of states in memory at a time, without activations of the heads.
        problem: why it cannot be used; None if it can.
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
        """Total time."""
        return self.encode + self.write + self.read + self.heads


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanWork:
    """The amount of work in a fit of spans.

    Attributes:
        trained: tokens in all training steps.
        scored: tokens in all passes over held-out and dev examples.
        stored: tokens of all splits, which a new store would hold.
        layers: from the lowest to the highest layer that any head reads.
        depth: number of the encoder's last layer.
        width: hidden size.
        batch: most tokens in a batch.
        shard: mean number of tokens in a shard of a store.
    """

    trained: float
    scored: float
    stored: float
    layers: range
    depth: int
    width: int
    batch: int
    shard: int

    @property
    def streamed(self) -> float:
        """Number of tokens that the source `stream` encodes."""
        return self.trained + self.scored

    @property
    def whole(self) -> range:
        """All layers."""
        return range(self.depth + 1)

    @property
    def stream_memory(self) -> int:
        """Approximate bytes of a batch's states, with copies."""
        return self._memory(self.batch, len(self.layers))

    def stream(self, rates: Rates, limits: Limits) -> Candidate:
        """The source that encodes every batch when it is needed."""
        return Candidate(
            source=Source(kind="stream"),
            encode=self.trained * rates.encode_step + self.scored * rates.encode_pass,
            heads=self._heads(rates),
            memory=self.stream_memory,
            problem=limits.memory_problem(self.stream_memory),
        )

    def new_store(self, rates: Rates, limits: Limits, keep: Keep, layers: range) -> Candidate:
        """A new store: everything is encoded once and written, then read for every batch."""
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
        """Approximate bytes of a store."""
        return round(self.stored * bytes_per_token(keep, len(layers), self.width))

    def old_store(self, rates: Rates, limits: Limits, folder: str, keep: Keep, layers: range) -> Candidate:
        """A finished store, which is read for every batch."""
        memory = self._memory(self.batch, len(layers))
        return Candidate(
            source=Source(kind="store", keep=keep, layers=in_layers(layers), folder=folder),
            read=self._read(rates, limits, keep, layers),
            heads=self._heads(rates),
            memory=memory,
            problem=limits.memory_problem(memory),
        )

    def _heads(self, rates: Rates) -> float:
        """Seconds of the heads."""
        return (self.trained + FORWARD_COST * self.scored) * rates.heads

    def _read(self, rates: Rates, limits: Limits, keep: Keep, layers: range) -> float:
        """Seconds to read from a store; one that is larger than free memory is read from disk again in every epoch."""
        cold = limits.free_memory is not None and self.disk(keep, layers) > limits.free_memory
        return self.streamed * len(layers) * (rates.read_cold if cold else rates.read)[keep]

    def _memory(self, tokens: int, layers: int) -> int:
        """Approximate bytes of the states of so many tokens, with copies."""
        return tokens * layers * self.width * FLOAT * COPIES


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWork:
    """The amount of work in a fit of labels, tags or scores, which has one row per text.

    Attributes:
        tokens: tokens to encode, once.
        trained: rows in all training steps.
        scored: rows in all passes over held-out and dev examples.
        rows: number of rows: of training, held-out and dev examples.
        numbers: numbers per row, in all layers that are kept.
        copied: numbers in the rows that are copied to solve the largest convex head; 0 if none is solved.
        parts: parts of a row, each as wide as the encoder.
        fraction: share of the training examples in use.
        dev: rows of dev examples, all of which are used whatever the share.
        fewer_layers: whether rows would be smaller if heads read fewer layers.
    """

    tokens: float
    trained: float
    scored: float
    rows: int
    numbers: int
    copied: int = 0
    parts: int = 1
    fraction: float = 1.0
    dev: int = 0
    fewer_layers: bool = False

    @property
    def memory(self) -> int:
        """Bytes of all rows, and of the copies for solving."""
        return (self.rows * self.numbers + COPIES * self.copied) * FLOAT

    def fraction_within(self, memory: float) -> float:
        """The share of the training examples with which all rows take so many bytes; not positive if none does."""
        fixed = self.dev * self.numbers * FLOAT
        return self.fraction * (memory - fixed) / (self.memory - fixed)

    def in_memory(self, rates: RowRates, limits: Limits) -> Candidate:
        """The source `memory`: everything is encoded once."""
        return Candidate(
            source=Source(kind="memory"),
            encode=self.tokens * rates.encode,
            heads=(self.trained + FORWARD_COST * self.scored) * rates.heads,
            memory=self.memory,
            problem=limits.memory_problem(self.memory),
        )
