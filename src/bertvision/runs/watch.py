"""RunWatcher: keeps a run's log and snapshots, scores each snapshot, and shows how far the run is."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from bertvision.encoder.delta import changed_weights
from bertvision.encoder.snapshot import SNAPSHOTS, Snapshot, save_snapshot
from bertvision.heads import Head, save_head
from bertvision.objectives import Pool
from bertvision.runs.folder import RunFolder
from bertvision.runs.request import TuneRequest
from bertvision.runs.validate import Validation
from bertvision.tasks.task import Task
from bertvision.training.model import TunedModel
from bertvision.training.processes import Processes

SPAN_METRICS = ("f1", "exact", "exact_match", "f1_fitted", "best_f1")
"""Of the two dozen values of questions, those that say how good a snapshot is."""


class Show(Protocol):
    """Who is told how far a run is."""

    def __call__(self, step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        """Called with steps made, steps in all, the newest values, and what takes long now."""


class JudgeSnapshot(Protocol):
    """Who looks at every snapshot of a run, and may end the run by raising."""

    def __call__(self, fraction: float, score: float | None) -> None:
        """Called with the epochs, and the main metric on held-out examples."""


def telling(show: Show | None, what: str) -> Show | None:
    """Whoever is told how far one of several runs is, and of what."""
    if show is None:
        return None

    def tell(step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        show(step, total, values, doing=f"{what} {doing}".rstrip())

    return tell


@dataclass(frozen=True, slots=True)
class Card:
    """What every snapshot of a run says of it."""

    request: TuneRequest
    fingerprint: str
    pool: Pool
    task: Task
    head: Head

    def snapshot(self, folder: Path, fraction: float, step: int) -> Snapshot:
        """The snapshot at a fraction of an epoch."""
        request = self.request
        return Snapshot(
            folder=folder / SNAPSHOTS / f"{fraction:g}",
            fraction=fraction,
            step=step,
            encoder=request.encoder,
            fingerprint=self.fingerprint,
            learn=request.learn,
            task=request.task,
            head=self.head.name,
            pooled=request.pooled,
            pool=self.pool,
            labels=self.task.labels,
            schedule=request.options.schedule,
            total_epochs=request.options.epochs,
        )


@dataclass(slots=True)
class RunWatcher:
    """Lives in the main process, which alone writes."""

    folder: RunFolder
    model: TunedModel
    validation: Validation
    card: Card
    accelerator: Processes
    show: Show | None
    judge: JudgeSnapshot | None = None
    total: int = 0
    loss: float = math.nan

    def on_begin(self, step: int, total: int) -> None:
        """Open the run's folder, and forget what will be done again."""
        self.folder.begin(asdict(self.card.request), self.card.fingerprint)
        self.folder.forget_after(step)
        if self.card.request.tracker is not None:
            self.accelerator.init_trackers("bertvision")
        self.total = total
        self._show(step, {})

    def on_log(self, step: int, values: dict[str, float]) -> None:
        """Write a line of the log."""
        self.loss = values["loss"]
        self.accelerator.log(values, step=step)
        self.folder.log({"step": step, **values})
        self._show(step, values)

    def on_snapshot(self, fraction: float, step: int) -> float | None:
        """Keep and score a snapshot."""
        snapshot = self.card.snapshot(self.folder.path, fraction, step)
        save_snapshot(snapshot, changed_weights(self.model.encoder), partial(save_head, self.model.head))
        self._show(step, {}, doing=f"scoring snapshot {fraction:g} …")
        values, score = self.validation.score(self.model)
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self.folder.log({"step": step, "snapshot": fraction, **finite})
        self.accelerator.log(values, step=step)
        self._show(step, {"snapshot": fraction, "loss": self.loss, **main_values(self.card.task, values)})
        if self.judge is not None:
            self.judge(fraction, score)
        return score

    def _show(self, step: int, values: Mapping[str, float], *, doing: str = "") -> None:
        if self.show is not None:
            self.show(step, self.total, values, doing=doing)


def main_values(task: Task, values: Mapping[str, float]) -> dict[str, float]:
    """The few values that say how good a snapshot is: on dev, or on held-out examples where there is no dev."""
    names = SPAN_METRICS if task.kind == "spans" else task.metrics
    on_dev = {name: values[name] for name in names if name in values}
    held_out = {f"held_out_{name}": values[f"held_out_{name}"] for name in names if f"held_out_{name}" in values}
    return on_dev or held_out
