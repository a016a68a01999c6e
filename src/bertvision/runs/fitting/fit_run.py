"""FitRun: judges the heads of a fit on held-out examples, keeps the best of each, and makes the leaderboard."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

from bertvision.amounts import in_words
from bertvision.atomic import whole_folder
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.evaluation.outputs import Outputs, all_finite
from bertvision.evaluation.score import defined
from bertvision.heads import Head, count_parameters, layers_read, load_head, save_head
from bertvision.runs.fitting.frozen import FrozenTask
from bertvision.runs.fitting.read import read_heads
from bertvision.runs.folder import RunFolder
from bertvision.runs.validate import Validation
from bertvision.runs.watch import LEARNING, SHOW_SECONDS, Show
from bertvision.tasks.part import Part
from bertvision.training.fit import States
from bertvision.training.solve import Solution
from bertvision.training.trainee import Trainee

HEADS_FOLDER = "heads"
SPENT = "spent"
"""In a line of the log: seconds of the pass so far, the encoder's included, without judging."""


@final
class FitRun:
    """What a fit keeps beside its weights; follows those that are trained.

    Attributes:
        folder: folder of the run.
        frozen: the task.
        trainees: what learns.
        layers: from the lowest to the highest that they read.
        held_out: the states of the examples that judge.
        notices: what the user should know.
        following: numbers of the trainees that are trained, in the order of the training.
    """

    def __init__(self, folder: RunFolder, frozen: FrozenTask, trainees: Sequence[Trainee], show: Show | None) -> None:
        self.folder = folder
        self.frozen = frozen
        self.trainees = list(trainees)
        self.layers = layers_read(trainee.head for trainee in trainees)
        self._show = show
        self._total = 0
        self._best: dict[int, float] = {}
        self._ended: dict[int, Outputs] = {}  # on held-out examples, of heads that were best at the end
        self._solved = {line["head"] for line in folder.lines() if "strength" in line}
        self._spent, self._since, self._told = 0.0, 0.0, 0.0
        self.held_out: States = frozen.states(frozen.held_out, self.layers)
        self.notices: list[str] = []
        self.following: list[int] = []
        self._validation = Validation(
            task=frozen.task, held_out=frozen.held_out, dev=frozen.dev, pool=frozen.pool, passes=frozen.passes
        )

    def on_solved(self, number: int, solution: Solution) -> None:
        """Keep a head that was solved; a fit that goes on solves it again, and has said so."""
        self._keep(number)
        if number not in self._solved:
            self.folder.log({"step": 0, "head": number, "strength": solution.strength, "loss": solution.loss})

    def on_begin(self, step: int, total: int) -> None:
        """Forget what will be done again, drop whoever was dropped before, and go on from the best scores and times."""
        self.folder.forget_after(step)
        for line in self.folder.lines():
            for number, spent in line.get("seconds", {}).items():
                self.trainees[int(number)].watch.seconds = spent
            self._spent = line.get(SPENT, self._spent)
            if "dropped" in line:
                self._drop(line["dropped"], line["reason"])
            if line.get("kept"):
                self._note_best(line["head"], line["score"])
        self._total = total
        self._tell(step, {})
        self._since = time.perf_counter()

    def on_step(self, step: int) -> None:
        """Tell how far the fit is, if that was long ago."""
        if time.monotonic() - self._told >= SHOW_SECONDS:
            self._tell(step, {}, doing=LEARNING)

    def on_log(self, step: int, losses: Mapping[int, float]) -> None:
        """Write a line of the log with everybody's loss, and the seconds of each and of the whole pass."""
        now = time.perf_counter()
        self._spent, self._since = self._spent + now - self._since, now
        by_head = {str(self.following[number]): loss for number, loss in losses.items()}
        seconds = {str(number): round(self.trainees[number].watch.seconds, 3) for number in self.following}
        self.folder.log({"step": step, "losses": by_head, "seconds": seconds, SPENT: round(self._spent, 3)})
        lowest = min(losses.values(), default=math.nan)
        self._tell(step, {"heads": float(len(losses)), "lowest loss": lowest})

    def on_drop(self, number: int, step: int) -> None:
        """Tell that a head learns no more."""
        dropped = self.following[number]
        self._drop(dropped, str(self.trainees[dropped].failure), step)

    def on_validate(self, fraction: float, step: int) -> None:
        """Judge those that still learn on the held-out examples, and keep each that is better than before."""
        self._tell(step, {}, doing=f"judging heads at {in_words(fraction, 'epoch')} …")
        alive = [number for number in self.following if self.trainees[number].failure is None]
        for number, score in self.judge(alive, step).items():
            best = self.best(number)
            better = score is not None and (best is None or score > best)
            shown = defined(score)
            if better:
                self._keep(number)
                self._note_best(number, shown)
            else:
                self._ended.pop(number, None)
            self.folder.log({"step": step, "validated": fraction, "head": number, "score": shown, "kept": better})
        self._since = time.perf_counter()  # judging is no step

    def judge(self, numbers: Sequence[int], step: int) -> dict[int, float | None]:
        """The main metric of heads as they are now on the held-out examples, by number.

        One whose outputs are not all finite has none, however well it would do by chance: it is dropped.
        """
        heads = [self.trainees[number].head for number in numbers]
        read = dict(zip(numbers, self._read(heads, self.frozen.held_out, self.held_out, step), strict=True))
        sound = [number for number in numbers if all_finite(read[number])]
        for number in sorted(set(numbers) - set(sound)):
            self._drop(number, f"its outputs on held-out examples were not finite at step {step}", step)
        if step == self._total:
            self._ended = {number: read[number] for number in sound}
        return {number: self._validation.score_outputs(read[number], None)[1] for number in sound}

    def leaderboard(self) -> list[dict[str, Any]]:
        """Every head that was kept, with its metrics, best first."""
        frozen = self.frozen
        kept = [number for number in range(len(self.trainees)) if self.place(number).is_dir()]
        heads = [load_head(self.place(number)).to(frozen.encoder.device) for number in kept]
        self._tell(self._total, {}, doing=f"scoring {in_words(len(heads), 'head')} …")
        held_out = self._held_out_outputs(kept, heads)
        dev: Sequence[Outputs | None] = [None] * len(heads)
        if frozen.dev is not None:
            dev = self._read(heads, frozen.dev, frozen.states(frozen.dev, self.layers), self._total)
        rows = [
            self._row(number, head, *self._validation.score_outputs(mine, reported))
            for number, head, mine, reported in zip(kept, heads, held_out, dev, strict=True)
        ]
        name = ("" if frozen.dev is not None else HELD_OUT_PREFIX) + frozen.task.main_metric
        rows.sort(key=lambda row: -row["metrics"][name] if math.isfinite(row["metrics"][name]) else math.inf)
        for row in rows:
            row["metrics"] = {metric: defined(value) for metric, value in row["metrics"].items()}
        return rows

    def _held_out_outputs(self, kept: Sequence[int], heads: Sequence[Head]) -> list[Outputs]:
        """The outputs of heads that were kept on the held-out examples; those judged last are read no second time."""
        others = {number: head for number, head in zip(kept, heads, strict=True) if number not in self._ended}
        read = self._read(list(others.values()), self.frozen.held_out, self.held_out, self._total)
        found = {**self._ended, **dict(zip(others, read, strict=True))}
        return [found[number] for number in kept]

    def _row(self, number: int, head: Head, metrics: Mapping[str, float], held_out: float | None) -> dict[str, Any]:
        trainee = self.trainees[number]
        spec = trainee.spec
        return {
            "head": spec.head,
            "options": head.options,
            "lr": spec.lr,
            "seed": spec.seed,
            "fraction": spec.fraction,
            "solved": number not in self.following,
            "parameters": count_parameters(head),
            "depth": head.depth,
            "seconds": round(trainee.watch.seconds, 3),
            "folder": str(self.place(number).relative_to(self.folder.path)),
            "held_out": defined(held_out),
            "metrics": dict(metrics),
        }

    def _read(self, heads: Sequence[Head], part: Part, states: States, step: int) -> list[Outputs]:
        frozen = self.frozen
        return read_heads(
            heads,
            states,
            part.windows,
            task=frozen.task,
            pool=frozen.pool,
            device=frozen.encoder.device,
            bf16=frozen.passes.bf16,
            tell=lambda doing: self._tell(step, {}, doing=doing),
        )

    def _drop(self, number: int, reason: str, step: int | None = None) -> None:
        """Let a head learn no more; without a step the log has it already."""
        if step is not None:
            self.folder.log({"step": step, "dropped": number, "reason": reason})
        self.trainees[number].drop(reason)
        self.notices.append(f"head {number} ({self.trainees[number].spec.head}) was dropped: {reason}.")

    def best(self, number: int) -> float | None:
        """The score of the head that is kept; None if none is, and less than any where it is not defined."""
        return self._best.get(number)

    def _note_best(self, number: int, shown: float | None) -> None:
        """Remember the score of a head that is kept, as the log has it."""
        self._best[number] = -math.inf if shown is None else shown

    def _keep(self, number: int) -> None:
        """Write a head; the one before stays until the new one is whole."""
        with whole_folder(self.place(number), "the head", otherwise="Make room and --resume.") as part:
            save_head(self.trainees[number].head, part)

    def place(self, number: int) -> Path:
        """Folder of a head."""
        return self.folder.path / HEADS_FOLDER / f"{number:03}-{self.trainees[number].spec.head}"

    def _tell(self, step: int, values: Mapping[str, float], *, doing: str = "") -> None:
        self._told = time.monotonic()
        if self._show is not None:
            self._show(step, max(self._total, 1), values, doing=doing)
