"""Distances of anchors to their positives and negatives, by the vectors of a sentence encoder."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertvision.tasks.triplets import OWN_NEGATIVES, Triplets

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class Summary:
    """The mean of distances, and their `QUANTILES` by share."""

    mean: float
    quantiles: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Euclidean distances of the anchors of one set.

    Attributes:
        anchors: number of anchors.
        positive: distances to the positives.
        negative: distances to the negatives of the same set.
        other: distances to the negatives of other sets; None if there is only one set.
        in_order: share of the anchors whose positive is nearer than every negative.
    """

    anchors: int
    positive: Summary
    negative: Summary
    other: Summary | None
    in_order: float

    def values(self) -> dict[str, float]:
        """The means, and the share in order, by name."""
        means = {"positive": self.positive.mean, "negative": self.negative.mean}
        if self.other is not None:
            means["other"] = self.other.mean
        return {**means, "in_order": self.in_order}


def measure_distances(triplets: Triplets, vectors: NDArray[np.float32]) -> dict[str, Distances]:
    """The distances of every set, by its name.

    Args:
        triplets: the triplets.
        vectors: (texts, width) vectors of their texts.
    """
    anchor = vectors[triplets.anchor]
    near = np.linalg.norm(anchor - vectors[triplets.positive], axis=1)
    far = np.linalg.norm(anchor[:, None] - vectors[triplets.negatives], axis=2)  # (triplets, negatives)
    by_set = {}
    for number, name in enumerate(triplets.names):
        inside = triplets.set_of == number
        others = far[inside, OWN_NEGATIVES:]
        by_set[name] = Distances(
            anchors=int(inside.sum()),
            positive=_summary(near[inside]),
            negative=_summary(far[inside, :OWN_NEGATIVES]),
            other=_summary(others) if others.size else None,
            in_order=float((near < far.min(axis=1))[inside].mean()),
        )
    return by_set


def _summary(distances: NDArray[np.float32]) -> Summary:
    quantiles = np.quantile(distances, QUANTILES).tolist()
    return Summary(float(distances.mean()), dict(zip(map(str, QUANTILES), quantiles, strict=True)))
