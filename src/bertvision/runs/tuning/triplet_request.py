"""TripletRequest: the settings of a run that trains an encoder on triplets."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from typing_extensions import override

from bertvision.objectives.triplets import TripletLoss
from bertvision.runs.request import LearnRequest
from bertvision.runs.tuning.multitask_request import cap_problems, task_names, task_problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TripletRequest(LearnRequest):
    """The settings of a run that trains an encoder on triplets; `task` has the tasks' names between commas.

    Attributes:
        loss: the triplet loss; see `TripletLoss`.
        margin: how much farther than the positive a negative should be, for the loss `margin`.
        caps: largest number of triplets of a task, by task.
    """

    loss: TripletLoss = "document"
    margin: float = 1.0
    caps: Mapping[str, int] = field(default_factory=dict)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the given order."""
        return task_names(self.task)

    @override
    def problems(self) -> list[str]:
        problems = [*LearnRequest.problems(self), *task_problems(self.tasks)]
        if self.learn == "none":
            problems.append("--learn is none, but triplets teach the encoder alone")
        if self.loss == "in-batch" and self.options.accumulate > 1:
            problems.append(
                f"--accumulate is {self.options.accumulate}, but --loss in-batch compares the texts of a whole batch, "
                "which cannot be computed in parts: use a smaller --batch"
            )
        if not 0.0 <= self.margin < float("inf"):
            problems.append(f"--margin is {self.margin:g}, at least 0 is expected")
        return problems + cap_problems(self.caps, self.tasks)
