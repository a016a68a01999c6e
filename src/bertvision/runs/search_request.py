"""SearchRequest: all that the trials of a search depend on, as a value."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bertvision.errors import BertVisionError
from bertvision.heads.options import ATTENTION
from bertvision.objectives import Pool
from bertvision.runs.data_request import DataRequest
from bertvision.runs.fit_request import STREAM, FitRequest, Pairs
from bertvision.runs.request import TuneRequest
from bertvision.runs.search_space import LEARN, Point, SearchSpace
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan
from bertvision.training.trainee import HeadSpec

ELSEWHERE = ("data", "source", "device", "dtype", "skip_bad")
"""What may differ between machines that share a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest(DataRequest):
    """All that the trials of a search depend on, but for how many there are.

    Attributes:
        space: what is chosen from.
        epochs: of a trial that is never pruned.
        batch: windows per step, where the space says nothing else.
        rungs: how often trials are judged; all but the best are pruned at each but the last.
        reduction: one of so many trials goes on from rung to rung.
        together: most heads that learn in one pass.
        fraction: share of the training examples to use.
        held_out: share of those that nobody learns from: the objective.
        seed: of data order, held-out examples, every trial's weights, and what is tried; never searched.
        pool: which row counts for labels, tags and scores.
        pairs: how pairs of texts are encoded for heads.
        source: where states come from: `stream`, or `store:DIR`.
        solve: solve convex heads instead of training them.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto` computes in bfloat16 on a GPU.
    """

    space: SearchSpace
    epochs: float = 1.0
    batch: int = 32
    rungs: int = 3
    reduction: int = 3
    together: int = 10
    fraction: float = 1.0
    held_out: float = 0.1
    seed: int = 0
    pool: Pool | Literal["attention"] | None = None
    pairs: Pairs | None = None
    source: str = STREAM
    solve: bool = True
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"

    def check(self) -> None:
        """Refuse values that cannot work, all at once.

        Raises:
            BertVisionError: naming every option with its value.
        """
        least = {"--rungs": (self.rungs, 1), "--reduction": (self.reduction, 2), "--together": (self.together, 1)}
        problems = [f"{name} is {got}, at least {low} is expected" for name, (got, low) in least.items() if got < low]
        if self.held_out == 0.0:
            problems.append("--held-out is 0, but trials are judged by held-out training examples")
        if self.source == "auto":
            problems.append("--from is 'auto', stream or store:DIR is expected")
        if self.space.kind == "tune" and self.pool == ATTENTION:
            problems.append("--pool is attention, cls or mean is expected in a search of kind tune")
        if problems:
            raise BertVisionError("; ".join(problems) + ".")

    def settings(self) -> dict[str, Any]:
        """What all processes that share a study must have alike."""
        return {name: value for name, value in asdict(self).items() if name not in ELSEWHERE}

    def spec(self, point: Point) -> HeadSpec:
        """The head of a trial, and how it learns."""
        if point.head is None:
            raise TypeError("a trial of heads has one")
        learning: dict[str, Any] = dict(point.learning)
        return HeadSpec(head=point.head, options=point.options, seed=self.seed, fraction=self.fraction, **learning)

    def fit(self, heads: tuple[HeadSpec, ...], validate: tuple[float, ...] = ()) -> FitRequest:
        """A fit of heads as trials are."""
        return FitRequest(
            **self.data_fields(),
            heads=heads,
            epochs=self.epochs,
            batch=self.batch,
            seed=self.seed,
            validate=validate,
            held_out=self.held_out,
            pool=self.pool,
            pairs=self.pairs,
            source=self.source,
            solve=self.solve,
            device=self.device,
            dtype=self.dtype,
        )

    def tuning(self, point: Point, snapshots: tuple[float, ...] = ()) -> TuneRequest:
        """A tuned run as a trial is."""
        learning: dict[str, Any] = {
            name: None if value == "none" else value for name, value in point.learning.items() if name != LEARN
        }
        return TuneRequest(
            **self.data_fields(),
            learn=str(point.learning.get(LEARN, "full")),
            options=TuneOptions(**({"epochs": self.epochs, "batch": self.batch, "seed": self.seed} | learning)),
            head=point.head,
            head_options=point.options,
            snapshots=snapshots,
            fraction=self.fraction,
            held_out=self.held_out,
            pool=self.pool if self.pool in ("cls", "mean") else None,
            device=self.device,
            dtype=self.dtype,
        )

    def rung_epochs(self, plan: Plan) -> dict[float, int]:
        """After how many epochs trials are judged, and the number of each rung: 1, 3, 9 where a third goes on.

        Rungs that would fall on one step, or before the first, are one.
        """
        steps: dict[int, tuple[float, int]] = {}
        for level in range(self.rungs):
            epochs = self.epochs / self.reduction ** (self.rungs - 1 - level)
            step = plan.total if level == self.rungs - 1 else max(1, math.floor(epochs * plan.per_epoch))
            steps[step] = epochs if step == plan.total else step / plan.per_epoch, self.reduction**level
        return dict(steps.values())
