"""SearchRequest: the settings of a search, and the requests of its trials."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bertvision.errors import refuse
from bertvision.heads.options import ATTENTION
from bertvision.runs.data_request import DataRequest
from bertvision.runs.fitting.fit_request import STREAM, FitRequest
from bertvision.runs.request import TuneRequest
from bertvision.runs.searching.search_file import ASK, CAP, LEARN, OF_SEVERAL
from bertvision.runs.searching.search_space import Choice, Point, SearchSpace
from bertvision.runs.tuning.multitask_request import MultitaskRequest, task_names, task_problems, unknown_tasks
from bertvision.tasks.task import Pairs, Pool
from bertvision.training.mix import Turns
from bertvision.training.options import TuneOptions
from bertvision.training.plan import total_steps
from bertvision.training.trainee import HeadSpec

TRIALS_FILE, TRIALS_FORMAT = "trials.json", 1
"""The record of all trials, in the folder of a search, and its format."""

BEST = "best"
"""The folder of the best trial's run, in the folder of a search."""

ELSEWHERE = ("data", "source", "device", "dtype", "skip_bad")
"""Fields that may differ between machines that share a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest(DataRequest):
    """The settings of a search, without the number of trials.

    Attributes:
        space: the search space.
        epochs: epochs of a trial that is never pruned.
        batch: batch size in windows, unless the space chooses it.
        rungs: number of rungs; at each but the last, only the best trials continue.
        reduction: reduction factor: one in this many trials continues at a rung.
        together: largest number of heads that are trained in one pass.
        fraction: share of the training examples to use.
        held_out: share of the used examples to hold out; the score on them is maximised.
        seed: seed of data order, held-out examples, initial weights and the sampler; never searched.
        pool: how tokens are pooled, for labels, tags and scores; None pools as the encoder was trained, `attention`
            lets every head learn it.
        pairs: how pairs of texts are encoded for heads.
        source: where the states for heads come from: `stream` or `store:DIR`.
        solve: solve convex heads instead of training them.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto` computes in bfloat16 on a GPU, and in float32 on a CPU.
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
    pairs: Pairs | Literal["auto"] = "auto"
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
        if self.space.kind != "heads" and self.pool == ATTENTION:
            problems.append(f"--pool is attention, cls or mean is expected in a search of kind {self.space.kind}")
        if self.space.kind == "multitask":
            problems += [*task_problems(self.tasks), *unknown_tasks("the space", self.space.tasks, self.tasks)]
        elif len(self.tasks) > 1:
            problems.append(f"{self.task} are several tasks, which a space of kind multitask is for")
        refuse(problems)
        defaults = Point(learning={}, head=None, options={})
        match self.space.kind:  # `HeadTrials` checks the request for heads
            case "tune":
                self.tuning(defaults).check()
            case "multitask":
                self.multitask(defaults).check()

    def settings(self) -> dict[str, Any]:
        """The fields that must be equal in all processes that share a study."""
        return {name: value for name, value in asdict(self).items() if name not in ELSEWHERE}

    def spec(self, point: Point) -> HeadSpec:
        """The head of a trial, with its training options."""
        if point.head is None:
            raise TypeError("a trial of heads has one")
        learning: dict[str, Any] = dict(point.learning)
        return HeadSpec(head=point.head, options=point.options, seed=self.seed, fraction=self.fraction, **learning)

    def fit(self, heads: tuple[HeadSpec, ...], validate: tuple[float, ...] = ()) -> FitRequest:
        """The request to fit heads, evaluated after the epochs in `validate`."""
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
        """The request of a trial that tunes an encoder for one task."""
        return TuneRequest(**self._learn_fields(point, snapshots), head=point.head, head_options=point.options)

    def multitask(self, point: Point, snapshots: tuple[float, ...] = ()) -> MultitaskRequest:
        """The request of a trial that tunes an encoder for several tasks; a task's own choices win over shared ones."""
        own = {task: point.tasks.get(task, Point(learning={}, head=None, options={})) for task in self.tasks}
        headed = {task: choice if choice.head is not None else point for task, choice in own.items()}
        caps, questions = ({task: choice.learning.get(name) for task, choice in own.items()} for name in (CAP, ASK))
        several: dict[str, Any] = {name: point.learning[name] for name in OF_SEVERAL if name in point.learning}
        return MultitaskRequest(
            **self._learn_fields(point, snapshots),
            heads_of={task: choice.head for task, choice in headed.items() if choice.head is not None},
            options_of={task: choice.options for task, choice in headed.items() if choice.options},
            caps={task: cap for task, cap in caps.items() if isinstance(cap, int)},
            questions={task: str(question) for task, question in questions.items() if question is not None},
            **several,
        )

    def _learn_fields(self, point: Point, snapshots: tuple[float, ...]) -> dict[str, Any]:
        """The fields of a trial's `LearnRequest`, by name."""
        tuned = {name: value for name, value in point.learning.items() if name in TuneOptions.__dataclass_fields__}
        given: dict[str, Any] = {name: None if value == "none" else value for name, value in tuned.items()}
        return {
            **self.data_fields(),
            "learn": str(point.learning.get(LEARN, "full")),
            "options": TuneOptions(**({"epochs": self.epochs, "batch": self.batch, "seed": self.seed} | given)),
            "snapshots": snapshots,
            "fraction": self.fraction,
            "held_out": self.held_out,
            "pool": self.pool if self.pool in ("cls", "mean") else None,
            "device": self.device,
            "dtype": self.dtype,
        }

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the given order."""
        return task_names(self.task)

    @property
    def whole_epochs(self) -> bool:
        """Whether rungs lie at whole epochs only: tasks may be trained in sequence, each in a part of an epoch."""
        if self.space.kind != "multitask":
            return False
        orders = self.space.learning.get("order", Choice(values=(Turns().order,)))
        return isinstance(orders, Choice) and "sequence" in orders.values

    def notices(self) -> list[str]:
        """Messages for the user."""
        if self.whole_epochs and self.rungs > 1 and self.epochs <= 1.0:
            reason = "tasks learn in sequence, so trials are judged after whole epochs alone"
            return [f"{reason}: within --epochs {self.epochs:g} none is pruned. Choose another order, or more epochs."]
        return []

    def rung_epochs(self, per_epoch: int) -> dict[float, int]:
        """The epochs at which trials are scored, and the resource of each rung: 1, 3, 9 with a reduction of 3.

        Epochs are rounded down to whole steps; rungs on the same step are one, with the larger resource.

        Args:
            per_epoch: steps of an epoch.
        """
        steps: dict[int, tuple[float, int]] = {}
        total, least = total_steps(self.epochs, per_epoch), per_epoch if self.whole_epochs else 1
        for level in range(self.rungs):
            epochs = self.epochs / self.reduction ** (self.rungs - 1 - level)
            step = max(1, math.floor(epochs * per_epoch / least)) * least
            if level == self.rungs - 1 or step >= total:
                step = total
            steps[step] = epochs if step == total else step / per_epoch, self.reduction**level
        return dict(steps.values())
