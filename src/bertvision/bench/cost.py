"""What passes, steps and stores cost, from an encoder's config alone: operations, bytes, seconds.

An operation is one multiplication or one addition. What is not a product of matrices (norms, activations, softmax) is
not counted: it takes its time within the utilisation, the share of the peak that a pass was measured to reach.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bertvision.bench.hardware import Hardware
from bertvision.encoder.learn import Learn
from bertvision.errors import BertVisionError
from bertvision.store.codec import Keep
from bertvision.store.room import bytes_on_disk
from bertvision.tasks.examples import FloatArray, IntArray

ATTENTION_BACK = 2.5
"""What attention costs on the way back, in ways forth: four products, and one that is computed again."""

GRADIENT_BYTES = 4
"""A gradient is float32, also where products are not."""

PADDED = 386
"""Tokens of every window in the original's layout, however many it has."""

ROWS = "store, one row per window, fp16"
"""What `disk_bytes` calls a store of one row per window: of labels, tags and scores, which need no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """What the cost of an encoder depends on.

    Attributes:
        width: numbers per token and layer.
        depth: layers above the embedding output; shared weights (ALBERT) count as often as they run.
        inner: width of the feed-forward part.
        gated: whether that part has a third map, the gate (ModernBERT).
        positions: distances that attention tells apart by products of their own, both ways (DeBERTa); else 0.
    """

    width: int
    depth: int
    inner: int
    gated: bool = False
    positions: int = 0

    @property
    def maps(self) -> tuple[tuple[int, int], ...]:
        """Numbers in and out of every linear map of a layer: query, key, value, output, feed-forward."""
        widened = ((self.width, self.inner),) * (2 if self.gated else 1)
        return ((self.width, self.width),) * 4 + widened + ((self.inner, self.width),)

    @property
    def token_operations(self) -> int:
        """Operations of the linear maps of one layer, per token."""
        return 2 * sum(inputs * outputs for inputs, outputs in self.maps)

    @property
    def pair_operations(self) -> int:
        """Operations of attention in one layer, per pair of tokens of a window: scores, and the mean by them."""
        return 4 * self.width

    @property
    def position_operations(self) -> int:
        """Operations of attention to distances in one layer, per token."""
        return 4 * self.positions * self.width


def shape_of(config: Any) -> EncoderShape:  # noqa: ANN401 - transformers' configs have no type
    """The shape of an encoder by its config.

    All tokens of a window are taken to see each other, in ModernBERT, too; what DeBERTa computes of its distances once
    per batch is left out.

    Raises:
        BertVisionError: the config does not say how wide the feed-forward part is.
    """
    inner = next((getattr(config, name) for name in ("intermediate_size", "hidden_dim") if hasattr(config, name)), None)
    if inner is None:
        raise BertVisionError(f"the config of a {config.model_type} names no intermediate_size, which costs depend on.")
    relative = bool(getattr(config, "relative_attention", False))
    reaches = (getattr(config, name, -1) for name in ("position_buckets", "max_relative_positions"))
    reach = next((reach for reach in reaches if reach > 0), config.max_position_embeddings)
    return EncoderShape(
        width=config.hidden_size,
        depth=config.num_hidden_layers * getattr(config, "inner_group_num", 1),
        inner=inner,
        gated=config.model_type == "modernbert",
        positions=2 * reach if relative else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is read.

    Attributes:
        windows: how many.
        tokens: in all of them.
        pairs: pairs of tokens within a window, over all windows: the sum of squared lengths.
    """

    windows: int
    tokens: float
    pairs: float

    @classmethod
    def of(cls, lengths: IntArray) -> Self:
        """The counts of windows with these numbers of tokens."""
        wide = lengths.astype(np.float64)
        return cls(windows=len(lengths), tokens=float(wide.sum()), pairs=float(wide @ wide))


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What a step of tuning does beyond a pass.

    Attributes:
        passed: layers that gradients go back through.
        learnt: layers whose linear maps learn.
        added: operations of what was put into each layer (adapters, low-rank changes), per token, on the way forth.
        touched: numbers that this reads and writes in each layer, per token, forth and back.
        parameters: the parameters that learn, the head's included.
    """

    passed: int
    learnt: int
    added: int
    touched: int
    parameters: int


def learning_of(learn: Learn, shape: EncoderShape, parameters: int) -> Learning:
    """What learns, as costs have it.

    Args:
        learn: the words of `--learn`.
        shape: shape of the encoder.
        parameters: the parameters that learn.
    """
    top = shape.depth if learn.everything else learn.top or 0
    deep = learn.norms or learn.biases or learn.houlsby is not None or learn.lora is not None
    added, touched = 0, 0
    if learn.houlsby is not None:
        added += 2 * 2 * 2 * shape.width * learn.houlsby  # two adapters of two maps
        touched += 2 * (5 + 7) * shape.width  # forth: read, write, add; back: two gradients each, write, add
    if learn.lora is not None:
        added += 2 * learn.lora * sum(inputs + outputs for inputs, outputs in shape.maps)
        # forth: inputs read, outputs written, scaled, added; back: scaled, read twice; inputs read, written, added
        touched += sum(6 * inputs + 10 * outputs for inputs, outputs in shape.maps)
    passed = shape.depth if deep else top
    return Learning(passed=passed, learnt=top, added=added, touched=touched, parameters=parameters)


def window_operations(shape: EncoderShape, lengths: IntArray, learning: Learning | None = None) -> FloatArray:
    """Operations of every window, (windows,): of a frozen pass with all layers, or of a step of tuning."""
    wide = lengths.astype(np.float64)
    per_token, per_pair = operations_of(shape, learning)
    return wide * per_token + wide**2 * per_pair


def load_operations(shape: EncoderShape, load: Load, learning: Learning | None = None) -> float:
    """The same for all windows of a load."""
    per_token, per_pair = operations_of(shape, learning)
    return load.tokens * per_token + load.pairs * per_pair


def operations_of(shape: EncoderShape, learning: Learning | None = None) -> tuple[float, float]:
    """Operations of all layers per token and per pair of tokens."""
    per_token = shape.depth * (shape.token_operations + shape.position_operations)
    per_pair = shape.depth * shape.pair_operations
    if learning is None:
        return per_token, per_pair
    # the way back: gradients of a map's input where one passes, those of its weights where they learn
    per_token += learning.passed * shape.token_operations + learning.learnt * shape.token_operations
    per_token += 3 * shape.depth * learning.added
    attended = ATTENTION_BACK * learning.passed
    return (
        per_token + attended * shape.position_operations,
        per_pair + attended * shape.pair_operations,
    )


def encode_seconds(shape: EncoderShape, load: Load, hardware: Hardware) -> float:
    """A frozen pass on one device, all layers."""
    return load_operations(shape, load) / hardware.rate


def step_seconds(shape: EncoderShape, learning: Learning, hardware: Hardware, gpus: int = 1) -> float:
    """What a step of tuning takes however few tokens it has: launches, the optimizer, the exchange of gradients."""
    launches = hardware.step_per_layer * shape.depth
    return launches + hardware.update * learning.parameters + exchange_seconds(learning.parameters, hardware, gpus)


def tune_seconds(shape: EncoderShape, learning: Learning, load: Load, hardware: Hardware, *, steps: int) -> float:
    """Tuning on one device: products, what is limited by memory, and what every step takes."""
    products = load_operations(shape, load, learning) / hardware.rate
    beside = load.tokens * token_seconds(shape, learning, hardware)
    return products + beside + steps * step_seconds(shape, learning, hardware)


def token_seconds(shape: EncoderShape, learning: Learning, hardware: Hardware) -> float:
    """What tuning takes per token beside products.

    Dropout draws after attention, after the feed-forward part, and for the embeddings; adapters and low-rank changes
    read and write more than they compute.
    """
    drawn = (2 * shape.depth + 1) * shape.width
    return hardware.draw * drawn + hardware.touch * shape.depth * learning.touched


def exchange_seconds(parameters: int, hardware: Hardware, gpus: int) -> float:
    """A ring all-reduce of the gradients of one step, none of it hidden behind the way back."""
    return 2 * (gpus - 1) / gpus * GRADIENT_BYTES * parameters / hardware.link(gpus)


def disk_bytes(shape: EncoderShape, load: Load) -> Mapping[str, int]:
    """Bytes on disk of all layers' states, by how they are kept."""
    layers = shape.depth + 1

    def store(keep: Keep, rows: float) -> int:
        return bytes_on_disk(keep, layers, shape.width, windows=load.windows, tokens=round(rows))

    return {
        "store, fp16": store("fp16", load.tokens),
        "store, int8": store("int8", load.tokens),
        ROWS: store("fp16", load.windows),
        "original: float32, padded to 386": original_bytes(shape, load.windows),
    }


def original_bytes(shape: EncoderShape, windows: int) -> int:
    """Bytes of the original's layout: float32, padded."""
    return windows * PADDED * (shape.depth + 1) * shape.width * 4
