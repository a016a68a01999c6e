"""Which layers heads read: learned layer weights and layer attention over seeds, with their centre of gravity."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.analysis.seeds import SeedMean, seed_means
from bertvision.errors import BertVisionError
from bertvision.heads import Head
from bertvision.tasks.examples import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class LayerSet:
    """One set of layer weights over seeds.

    Attributes:
        weights: (layers,) the factor of each layer.
        shares: (layers,) |weight| / Σ |weight|.
        centre: the centre of gravity, Σ layer · share.
    """

    weights: tuple[SeedMean, ...]
    shares: tuple[SeedMean, ...]
    centre: SeedMean


@dataclass(frozen=True, slots=True)
class LayerReport:
    """The layer weights of a head, over seeds.

    Attributes:
        layers: numbers of the layers; 0 is the embedding output.
        sets: one set of weights for all outputs, or one set for each.
    """

    layers: tuple[int, ...]
    sets: tuple[LayerSet, ...]


def learned_weights(heads: Sequence[Head]) -> LayerReport | None:
    """The learned layer weights of a head over seeds; None if it has none that are the same for every token.

    Args:
        heads: the same head trained with several seeds.

    Raises:
        BertVisionError: there is no head, or they differ in name, shape or options.
    """
    if not heads:
        raise BertVisionError("no head was given; one for each seed is expected.")
    learned = [head.layer_weights() for head in heads]
    weights = [values.detach().double().cpu().numpy() for values in learned if values is not None]
    if not weights:
        return None
    if len({(head.name, head.shape, tuple(sorted(head.options.items()))) for head in heads}) > 1:
        raise BertVisionError(
            "heads of several names, shapes or options were given; heads that differ in their seed alone are expected."
        )
    return layer_report(np.stack(weights), lowest=heads[0].lowest)


def layer_report(weights: FloatArray, *, lowest: int = 0) -> LayerReport:
    """Weights, shares and centres of gravity over seeds.

    Shares are |w| / Σ |w|; of a softmax times any factor, they are the values of the softmax. Layers with larger states
    need smaller weights, so compare layers only if the head normalises them.

    Args:
        weights: (seeds, sets, layers).
        lowest: number of the lowest layer.

    Raises:
        BertVisionError: the weights have another shape, or all weights of a set are 0.
    """
    if weights.ndim != 3 or not weights.size:
        raise BertVisionError(f"layer weights have shape {weights.shape}; (seeds, sets, layers) is expected.")
    layers = range(lowest, lowest + weights.shape[2])
    return LayerReport(
        tuple(layers), tuple(_layer_set(weights[:, number], layers) for number in range(weights.shape[1]))
    )


def _layer_set(weights: FloatArray, layers: range) -> LayerSet:
    sizes = np.abs(weights)  # (seeds, layers)
    totals = sizes.sum(axis=1, keepdims=True)
    if not (totals > 0).all():
        raise BertVisionError("all layer weights of a head are 0 or not finite; at least one that counts is expected.")
    shares = sizes / totals
    centres = shares @ np.array(layers, dtype=np.float64)
    return LayerSet(seed_means(weights), seed_means(shares), seed_means(centres[:, None])[0])


def window_attention(attention: FloatArray, lengths: IntArray) -> FloatArray:
    """Mean attention over the tokens of every window, (windows, outputs, layers).

    Args:
        attention: (tokens, outputs, layers) of the real tokens, window after window; see `Head.layer_attention`.
        lengths: (windows,) tokens per window.

    Raises:
        BertVisionError: the lengths do not add up to the number of tokens, or a window has no token.
    """
    if attention.ndim != 3 or len(attention) != lengths.sum() or (lengths < 1).any():
        raise BertVisionError(
            f"attention has shape {attention.shape} for {len(lengths):,} windows of {lengths.sum():,} tokens; "
            "(tokens, outputs, layers), and a token in every window, are expected."
        )
    sums = np.add.reduceat(attention, np.cumsum(lengths) - lengths, axis=0, dtype=np.float64)
    return np.asarray(sums / lengths[:, None, None])


def mean_attention(attention: FloatArray, lengths: IntArray, rows: IntArray | None = None) -> FloatArray:
    """Mean attention over the tokens of all or some windows, (outputs, layers).

    Args:
        attention: (windows, outputs, layers) means of the windows; see `window_attention`.
        lengths: (windows,) tokens per window.
        rows: numbers of the windows to average, such as those of one question; None takes all.

    Raises:
        BertVisionError: no window is chosen, or there is not one length for each.
    """
    if attention.ndim != 3 or len(lengths) != len(attention):
        raise BertVisionError(
            f"attention has shape {attention.shape} and there are {len(lengths):,} lengths; "
            "(windows, outputs, layers) and one length for each window are expected."
        )
    chosen = np.arange(len(attention)) if rows is None else rows
    if not len(chosen):
        raise BertVisionError("no window was chosen; those of a question, or all, are expected.")
    return np.asarray(np.average(attention[chosen], axis=0, weights=lengths[chosen]), dtype=np.float64)
