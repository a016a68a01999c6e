"""How far texts are from those that belong near them, and from those that do not."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertvision.tasks.triplets import OWN_NEGATIVES, Triplets

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, slots=True)
class Summary:
    """Some distances: their mean, and their quantiles by share."""

    mean: float
    quantiles: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Of the anchors of a set.

    Attributes:
        anchors: how many.
        positive: Euclidean distances to what belongs near.
        negative: distance to what does not, of the same set.
        other: distance to what does not, of other sets; None where there is one set.
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
    """Distances by set.

    Args:
        triplets: which texts belong together.
        vectors: (texts, width) of all texts.
    """
    anchor = vectors[triplets.anchor]
    near = np.linalg.norm(anchor - vectors[triplets.positive], axis=1)
    far = np.linalg.norm(anchor[:, None] - vectors[triplets.negatives], axis=2)  # (triplets, negatives)
    found = {}
    for number, name in enumerate(triplets.names):
        mine = triplets.set_of == number
        others = far[mine, OWN_NEGATIVES:]
        found[name] = Distances(
            anchors=int(mine.sum()),
            positive=_summary(near[mine]),
            negative=_summary(far[mine, :OWN_NEGATIVES]),
            other=_summary(others) if others.size else None,
            in_order=float((near < far.min(axis=1))[mine].mean()),
        )
    return found


def _summary(distances: NDArray[np.float32]) -> Summary:
    quantiles = np.quantile(distances, QUANTILES).tolist()
    return Summary(float(distances.mean()), dict(zip(map(str, QUANTILES), quantiles, strict=True)))
