"""What each further layer adds: scores of heads that read the layers 0 to k, for every k (Tenney et al., 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.analysis.seeds import SeedMean, seed_means
from bertvision.errors import BertVisionError
from bertvision.tasks.examples import FloatArray


@dataclass(frozen=True, slots=True)
class CumulativeScores:
    """Scores of prefix heads by depth, over seeds.

    Attributes:
        depths: (depths,) the last layer that each head reads.
        scores: (depths,) score of each head.
        differences: (depths - 1,) score of each head after the first, minus that of the head one layer less deep.
        expected_layer: Σ layer · difference / Σ difference, of the mean scores. None if the deepest head is no better
            than the first.
    """

    depths: tuple[int, ...]
    scores: tuple[SeedMean, ...]
    differences: tuple[SeedMean, ...]
    expected_layer: float | None


def cumulative_scores(depths: Sequence[int], scores: FloatArray) -> CumulativeScores:
    """Score differences and the expected layer; a difference may be negative.

    The heads should read all layers up to their depth, as `layer_mix` does; `last_layer` reads only the deepest.

    Args:
        depths: the last layer that each prefix head reads, ascending by 1.
        scores: (seeds, depths).

    Raises:
        BertVisionError: a depth is missing or out of order, there are fewer than two, or not one score for each.
    """
    if scores.ndim != 2 or scores.shape[1] != len(depths) or len(depths) < 2:
        raise BertVisionError(
            f"scores have shape {scores.shape} for {len(depths)} depths; (seeds, depths) with two or more is expected."
        )
    expected = list(range(depths[0], depths[0] + len(depths)))
    if list(depths) != expected:
        raise BertVisionError(
            f"prefix heads have the depths {_listed(depths)}; {_listed(expected)} are expected. Fit one for each layer."
        )
    gains = np.diff(scores, axis=1)  # (seeds, depths - 1), each within one seed
    means = gains.mean(axis=0)
    total = float(means.sum())
    layer = float(means @ np.array(depths[1:], dtype=np.float64)) / total if total > 0 else None
    return CumulativeScores(tuple(depths), seed_means(scores), seed_means(gains), layer)


def _listed(depths: Sequence[int]) -> str:
    return ", ".join(str(depth) for depth in depths)
