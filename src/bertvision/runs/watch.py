"""RunWatcher: writes the log of a run that tunes an encoder, saves and scores its snapshots, and shows progress."""

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
"""The metrics of questions that are shown for a snapshot; there are two dozen in all."""


SHOW_SECONDS = 15.0
"""Seconds after which progress is shown again although nothing new is logged: steps may be slow."""

LEARNING = "learning …"
"""What is shown then."""


class Show(Protocol):
    """A callback that shows progress."""

    def __call__(self, step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        """Called with steps done, steps in all, the newest values by name, and what takes long now, if anything."""


class JudgeSnapshot(Protocol):
    """A callback that sees the score of every snapshot, and may end the run by raising."""

    def __call__(self, fraction: float, score: float | None) -> None:
        """Called with the epochs so far, and the score on held-out examples; None without any."""


def tell(show: Show | None, doing: str) -> None:
    """Show what takes long now, before there are any steps to count."""
    if show is not None:
        show(0, 1, {}, doing=doing)


def telling(show: Show | None, what: str) -> Show | None:
    """The same callback for one of several runs: it shows the run's name before what takes long; None stays None."""
    if show is None:
        return None

    def show_named(step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        show(step, total, values, doing=f"{what} {doing}".rstrip())

    return show_named


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What all snapshots of a run have in common.

    Attributes:
        run: folder of the run.
        request: its settings.
        fingerprint: fingerprint of the encoder before tuning.
        pool: how tokens are pooled, for labels, tags and scores.
        head: name of the head; empty unless there is exactly one.
        labels: label words of the task; empty for several tasks.
        pooled: whether the head reads the encoder's pooled vector, too.
        teacher: fingerprint of the teacher; None if there is none.
        examples: digest of the training and held-out examples; of triplets, of the training ones alone.
        held_out: digest of the held-out examples; None if they are not checked when the run is judged.
    """

    run: Path
    request: LearnRequest
    fingerprint: str
    pool: Pool
    head: str = ""
    labels: tuple[str, ...] = ()
    pooled: bool = False
    teacher: str | None = None
    examples: str
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
    """Saves and scores the model in training; one class for each kind of run."""

    @property
    def card(self) -> Card:
        """What all snapshots of the run have in common."""

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot."""

    def score(self) -> tuple[dict[str, float], float | None]:
        """Metrics by name, and the held-out score for early stopping, larger is better; None without one."""

    def main_values(self, values: Mapping[str, float]) -> dict[str, float]:
        """The few of the metrics that are shown for a snapshot."""


@dataclass(slots=True)
class RunWatcher:
    """The callbacks of `tune_encoder`, which only the main process calls; see `Watcher`.

    Attributes:
        folder: folder of the run.
        keeper: saves and scores snapshots.
        accelerator: for experiment trackers.
        show: shows progress; None shows nothing.
        judge: sees the score of every snapshot, and may end the run; None for none.
        total: steps of the run.
        loss: the newest loss in the log.
        seconds: spent on training until the newest line of the log, before an interruption included; snapshots and
            checkpoints do not count.
        since: when the seconds after that began to count, by `time.perf_counter`.
        shown: when progress was last shown, by `time.monotonic`.
    """

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
        """Begin or resume the run in its folder; log lines of steps that a resumed run repeats are removed."""
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
        """Show progress, if nothing was shown for `SHOW_SECONDS`."""
        if time.monotonic() - self.shown >= SHOW_SECONDS:
            self._show(step, {} if math.isnan(self.loss) else {"loss": self.loss}, doing=LEARNING)

    def on_log(self, step: int, values: dict[str, float]) -> None:
        """Write a line of the log, with the seconds of training so far."""
        now = time.perf_counter()
        self.seconds += now - self.since
        self.since = now
        self.loss = values["loss"]
        self.accelerator.log(values, step=step)
        self.folder.log({"step": step, **values, "seconds": round(self.seconds, 3)})
        self._show(step, values)

    def on_snapshot(self, fraction: float, step: int) -> float | None:
        """Save and score a snapshot; returns its held-out score."""
        self.keeper.save(self.keeper.card.snapshot(fraction, step))
        self._show(step, {}, doing=f"scoring snapshot {fraction:g} …")
        values, score = self.keeper.score()
        logged = {name: defined(value) for name, value in values.items()}
        self.folder.log({"step": step, "snapshot": fraction, **logged})
        self.accelerator.log(values, step=step)
        self._show(step, {"snapshot": fraction, "loss": self.loss, **self.keeper.main_values(values)})
        if self.judge is not None:
            self.judge(fraction, score)
        self.since = time.perf_counter()  # snapshots do not count as training time
        return score

    def on_saved(self, seconds: float) -> None:
        """Leave the seconds of a checkpoint out of the training time."""
        self.since += seconds

    def _show(self, step: int, values: Mapping[str, float], *, doing: str = "") -> None:
        self.shown = time.monotonic()
        if self.show is not None:
            self.show(step, self.total, values, doing=doing)


def main_values(task: Task, values: Mapping[str, float]) -> dict[str, float]:
    """The few metrics that are shown for a snapshot: those on dev; without dev those on held-out examples."""
    names = SPAN_METRICS if task.kind == "spans" else task.metrics
    on_dev = {name: values[name] for name in names if name in values}
    held_out = {name: values[name] for name in (HELD_OUT_PREFIX + name for name in names) if name in values}
    return on_dev or held_out
