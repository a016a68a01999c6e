"""The cost model: operations, bytes and seconds of forward passes, training steps and stores, from an encoder's config.

An operation is one multiplication or one addition in a matrix product. Other work (norms, activations, softmax) is not
counted: its time is part of the utilisation, the measured share of the peak that a pass reaches.
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
"""Operations of attention in a backward pass over those in a forward pass, which has two products: four products for
gradients, and one that is computed again."""

GRADIENT_BYTES = 4
"""Bytes of a gradient: float32, even if products are computed in 16 bits."""

PADDED = 386
"""Tokens that every window is padded to in the layout of the original project."""

ROWS = "store, one row per window, fp16"
"""Name in `disk_bytes` of a store with one pooled row per window, for tasks with labels, tags or scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderShape:
    """The sizes of an encoder that its cost depends on.

    Attributes:
        width: hidden size.
        depth: layers above the embedding output; layers with shared weights (ALBERT) count as often as they run.
        inner: width of the feed-forward part (intermediate size).
        gated: whether the feed-forward part has a third linear map, the gate (ModernBERT).
        positions: relative positions in both directions whose attention scores are products of their own (DeBERTa);
            else 0.
    """

    width: int
    depth: int
    inner: int
    gated: bool = False
    positions: int = 0

    @property
    def maps(self) -> tuple[tuple[int, int], ...]:
        """Input and output widths of every linear map of a layer: query, key, value, output, feed-forward."""
        widened = ((self.width, self.inner),) * (2 if self.gated else 1)
        return ((self.width, self.width),) * 4 + widened + ((self.inner, self.width),)

    @property
    def token_operations(self) -> int:
        """Operations per token of the linear maps of one layer."""
        return 2 * sum(inputs * outputs for inputs, outputs in self.maps)

    @property
    def pair_operations(self) -> int:
        """Operations per pair of tokens of a window of attention in one layer: scores, and weighted sums of values."""
        return 4 * self.width

    @property
    def position_operations(self) -> int:
        """Operations per token for attention scores of relative positions in one layer."""
        return 4 * self.positions * self.width


def shape_of(config: Any) -> EncoderShape:  # noqa: ANN401 - transformers' configs have no type
    """The shape of an encoder from its config.

    Attention is counted as global in all layers, also in ModernBERT. DeBERTa's projections of its relative positions,
    computed once per batch, are not counted.

    Raises:
        BertVisionError: the config does not have the width of the feed-forward part.
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
    """The amount of text that is processed.

    Attributes:
        windows: number of windows.
        tokens: tokens of all windows.
        pairs: pairs of tokens within a window, over all windows: the sum of squared lengths.
    """

    windows: int
    tokens: float
    pairs: float

    @classmethod
    def of(cls, lengths: IntArray) -> Self:
        """The load of windows of these lengths in tokens, (windows,)."""
        tokens = lengths.astype(np.float64)
        return cls(windows=len(lengths), tokens=float(tokens.sum()), pairs=float(tokens @ tokens))


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """What a training step computes beyond a frozen pass.

    Attributes:
        passed: number of layers in the backward pass.
        learnt: number of layers whose linear maps are trained.
        added: operations per token in the forward pass of adapters or LoRA in one layer.
        touched: numbers per token that adapters or LoRA read and write in one layer, forward and backward.
        parameters: number of trained parameters, the head's included.
    """

    passed: int
    learnt: int
    added: int
    touched: int
    parameters: int


def learning_of(learn: Learn, shape: EncoderShape, parameters: int) -> Learning:
    """The work of a training step, by what is trained.

    Args:
        learn: the value of `--learn`.
        shape: shape of the encoder.
        parameters: number of trained parameters.
    """
    top = shape.depth if learn.everything else learn.top or 0
    deep = learn.norms or learn.biases or learn.houlsby is not None or learn.lora is not None
    added, touched = 0, 0
    if learn.houlsby is not None:
        added += 2 * 2 * 2 * shape.width * learn.houlsby  # two adapters of two maps
        touched += 2 * (5 + 7) * shape.width  # forward: read, write, add; backward: two gradients each, write, add
    if learn.lora is not None:
        added += 2 * learn.lora * sum(inputs + outputs for inputs, outputs in shape.maps)
        # forward: inputs read, outputs written, scaled, added
        # backward: outputs scaled, read twice; inputs read, written, added
        touched += sum(6 * inputs + 10 * outputs for inputs, outputs in shape.maps)
    passed = shape.depth if deep else top
    return Learning(passed=passed, learnt=top, added=added, touched=touched, parameters=parameters)


def window_operations(shape: EncoderShape, lengths: IntArray, learning: Learning | None = None) -> FloatArray:
    """Operations of each window, (windows,), in a frozen pass over all layers, or with `learning` a training step."""
    tokens = lengths.astype(np.float64)
    per_token, per_pair = operations_of(shape, learning)
    return tokens * per_token + tokens**2 * per_pair


def load_operations(shape: EncoderShape, load: Load, learning: Learning | None = None) -> float:
    """Operations of all windows of a load: of a frozen pass over all layers, or with `learning` of training steps."""
    per_token, per_pair = operations_of(shape, learning)
    return load.tokens * per_token + load.pairs * per_pair


def operations_of(shape: EncoderShape, learning: Learning | None = None) -> tuple[float, float]:
    """Operations of all layers per token and per pair of tokens: of a frozen pass, or of a training step."""
    # as floats: the operations of 100 million windows are more than an integer of 64 bits holds
    per_token = float(shape.depth * (shape.token_operations + shape.position_operations))
    per_pair = float(shape.depth * shape.pair_operations)
    if learning is None:
        return per_token, per_pair
    # backward pass: gradients of the inputs of linear maps, and of their weights where these are trained
    per_token += learning.passed * shape.token_operations + learning.learnt * shape.token_operations
    per_token += 3 * shape.depth * learning.added
    attended = ATTENTION_BACK * learning.passed
    return (
        per_token + attended * shape.position_operations,
        per_pair + attended * shape.pair_operations,
    )


def encode_seconds(shape: EncoderShape, load: Load, hardware: Hardware) -> float:
    """Seconds of a frozen pass over all layers on one device."""
    return load_operations(shape, load) / hardware.rate


def step_seconds(shape: EncoderShape, learning: Learning, hardware: Hardware, gpus: int = 1) -> float:
    """Seconds of a training step that do not depend on its tokens: launching kernels, the optimizer, the all-reduce."""
    launches = hardware.step_per_layer * shape.depth
    return launches + hardware.update * learning.parameters + exchange_seconds(learning.parameters, hardware, gpus)


def tune_seconds(shape: EncoderShape, learning: Learning, load: Load, hardware: Hardware, *, steps: int) -> float:
    """Seconds of tuning on one device: matrix products, memory-bound work, and the fixed cost of every step."""
    products = load_operations(shape, load, learning) / hardware.rate
    memory_bound = load.tokens * token_seconds(shape, learning, hardware)
    return products + memory_bound + steps * step_seconds(shape, learning, hardware)


def token_seconds(shape: EncoderShape, learning: Learning, hardware: Hardware) -> float:
    """Seconds of tuning per token beside matrix products: dropout, and memory traffic of adapters and LoRA.

    Dropout is drawn after attention, after the feed-forward part, and for the embeddings.
    """
    drawn = (2 * shape.depth + 1) * shape.width
    return hardware.draw * drawn + hardware.touch * shape.depth * learning.touched


def exchange_seconds(parameters: int, hardware: Hardware, gpus: int) -> float:
    """Seconds of a ring all-reduce of a step's gradients, not overlapped with the backward pass."""
    return 2 * (gpus - 1) / gpus * GRADIENT_BYTES * parameters / hardware.link(gpus)


def disk_bytes(shape: EncoderShape, load: Load) -> Mapping[str, int]:
    """Bytes on disk of all layers' states, by storage format."""
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
    """Bytes of all layers' states in the layout of the original project: float32, padded to 386 tokens."""
    return windows * PADDED * (shape.depth + 1) * shape.width * 4
