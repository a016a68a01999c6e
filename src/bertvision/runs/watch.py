"""RunWatcher: keeps a run's log and snapshots, scores each snapshot, and shows how far the run is."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from bertvision.encoder.snapshot import SNAPSHOTS, Snapshot
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.evaluation.score import defined
from bertvision.objectives import Pool
from bertvision.runs.folder import RunFolder
from bertvision.runs.request import LearnRequest
from bertvision.tasks.task import Task
from bertvision.training.processes import Processes

SPAN_METRICS = ("f1", "exact", "exact_match", "f1_fitted", "best_f1")
"""The metrics of questions that say how good a snapshot is; there are two dozen in all."""


SHOW_SECONDS = 15.0
"""So long after the last news it is shown how far a run is, though there is nothing else to tell: steps may be slow."""

LEARNING = "learning …"
"""What a run does then."""


class Show(Protocol):
    """Who is told how far a run is."""

    def __call__(self, step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        """Called with steps made, steps in all, the newest values, and what takes long now."""


class JudgeSnapshot(Protocol):
    """Who looks at every snapshot of a run, and may end the run by raising."""

    def __call__(self, fraction: float, score: float | None) -> None:
        """Called with the epochs, and the main metric on held-out examples."""


def tell(show: Show | None, doing: str) -> None:
    """Say what takes long now, before anything is counted."""
    if show is not None:
        show(0, 1, {}, doing=doing)


def telling(show: Show | None, what: str) -> Show | None:
    """Whoever is told how far one of several runs is, and of what."""
    if show is None:
        return None

    def tell(step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        show(step, total, values, doing=f"{what} {doing}".rstrip())

    return tell


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What every snapshot of a run says of it.

    Attributes:
        run: folder of the run.
        request: what it was asked for.
        fingerprint: fingerprint of the encoder before tuning.
        pool: which row counts for labels, tags and scores.
        head: name of the one head; empty where there are several or none.
        labels: label words of the one task.
        pooled: whether heads read the encoder's own pooled vector.
        teacher: fingerprint of the teacher; None has none.
        examples: digest of what is learned and held out; None is not known again.
        held_out: digest of what is held out; None is not known again.
    """

    run: Path
    request: LearnRequest
    fingerprint: str
    pool: Pool
    head: str = ""
    labels: tuple[str, ...] = ()
    pooled: bool = False
    teacher: str | None = None
    examples: str | None = None
    held_out: str | None = None

    def snapshot(self, fraction: float, step: int) -> Snapshot:
        """The snapshot at a fraction of an epoch."""
        request = self.request
        return Snapshot(
            folder=self.run / SNAPSHOTS / f"{fraction:g}",
            fraction=fraction,
            step=step,
            encoder=request.encoder,
            fingerprint=self.fingerprint,
            learn=request.learn,
            task=request.task,
            head=self.head,
            pooled=self.pooled,
            pool=self.pool,
            labels=self.labels,
            schedule=request.options.schedule,
            total_epochs=request.options.epochs,
        )


class Keeper(Protocol):
    """What a run keeps at a snapshot, and how good that is."""

    @property
    def card(self) -> Card:
        """What snapshots say of the run."""

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot."""

    def score(self) -> tuple[dict[str, float], float | None]:
        """Metrics, flat, and the held-out score by which runs stop, larger is better; None without any."""

    def main_values(self, values: Mapping[str, float]) -> dict[str, float]:
        """The few of the metrics that say how good a snapshot is."""


@dataclass(slots=True)
class RunWatcher:
    """Lives in the main process, which alone writes."""

    folder: RunFolder
    keeper: Keeper
    accelerator: Processes
    show: Show | None
    judge: JudgeSnapshot | None = None
    total: int = 0
    loss: float = math.nan
    seconds: float = 0.0
    since: float = 0.0
    shown: float = 0.0

    def on_begin(self, step: int, total: int) -> None:
        """Open the run's folder, and forget what will be done again."""
        card = self.keeper.card
        request = card.request
        self.folder.begin(
            asdict(request), card.fingerprint, teacher=card.teacher, examples=card.examples, held_out=card.held_out
        )
        self.folder.forget_after(step)
        spent = [line["seconds"] for line in self.folder.lines() if "seconds" in line]
        self.seconds = spent[-1] if spent else 0.0
        if request.tracker is not None:
            self.accelerator.init_trackers("bertvision")
        self.total = total
        self._show(step, {})
        self.since = time.perf_counter()

    def on_step(self, step: int) -> None:
        """Show how far the run is, if that was long ago."""
        if time.monotonic() - self.shown >= SHOW_SECONDS:
            self._show(step, {} if math.isnan(self.loss) else {"loss": self.loss}, doing=LEARNING)

    def on_log(self, step: int, values: dict[str, float]) -> None:
        """Write a line of the log, with the seconds that steps took so far."""
        now = time.perf_counter()
        self.seconds += now - self.since
        self.since = now
        self.loss = values["loss"]
        self.accelerator.log(values, step=step)
        self.folder.log({"step": step, **values, "seconds": round(self.seconds, 3)})
        self._show(step, values)

    def on_snapshot(self, fraction: float, step: int) -> float | None:
        """Keep and score a snapshot."""
        self.keeper.save(self.keeper.card.snapshot(fraction, step))
        self._show(step, {}, doing=f"scoring snapshot {fraction:g} …")
        values, score = self.keeper.score()
        known = {name: defined(value) for name, value in values.items()}
        self.folder.log({"step": step, "snapshot": fraction, **known})
        self.accelerator.log(values, step=step)
        self._show(step, {"snapshot": fraction, "loss": self.loss, **self.keeper.main_values(values)})
        if self.judge is not None:
            self.judge(fraction, score)
        self.since = time.perf_counter()  # a snapshot is no step
        return score

    def on_saved(self, seconds: float) -> None:
        """Leave the time of a checkpoint aside, which is no step, either."""
        self.since += seconds

    def _show(self, step: int, values: Mapping[str, float], *, doing: str = "") -> None:
        self.shown = time.monotonic()
        if self.show is not None:
            self.show(step, self.total, values, doing=doing)


def main_values(task: Task, values: Mapping[str, float]) -> dict[str, float]:
    """The few values that say how good a snapshot is: on dev, or on held-out examples where there is no dev."""
    names = SPAN_METRICS if task.kind == "spans" else task.metrics
    on_dev = {name: values[name] for name in names if name in values}
    held_out = {name: values[name] for name in (HELD_OUT_PREFIX + name for name in names) if name in values}
    return on_dev or held_out
