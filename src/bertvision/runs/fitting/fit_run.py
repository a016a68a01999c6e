"""FitRun: scores the heads of a fit on held-out examples, saves the best state of each, and ranks them."""

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
"""Key in the log: seconds of training so far, including the encoder, without validation."""


@final
class FitRun:
    """The callbacks of a fit (see `FitWatcher`): log, validation, saved heads; and the leaderboard at the end.

    A head's number is its place among the trainees. In the callbacks it is its place in `trained`.

    Attributes:
        folder: folder of the run.
        frozen: the task's data and the frozen encoder.
        trainees: all heads.
        layers: from the lowest to the highest layer that any head reads.
        held_out: states of the held-out examples.
        notices: messages for the user.
        trained: numbers of the heads that are trained by gradient steps, in this order; the others are solved.
    """

    def __init__(self, folder: RunFolder, frozen: FrozenTask, trainees: Sequence[Trainee], show: Show | None) -> None:
        self.folder = folder
        self.frozen = frozen
        self.trainees = list(trainees)
        self.layers = layers_read(trainee.head for trainee in trainees)
        self._show = show
        self._total = 0
        self._best: dict[int, float] = {}
        self._final: dict[int, Outputs] = {}  # on held-out examples, of heads whose last state is their best
        self._solved = {line["head"] for line in folder.lines() if "strength" in line}
        self._spent, self._since = 0.0, 0.0  # seconds of training, and when they were last added up
        self._shown = 0.0  # when progress was last shown
        self.held_out: States = frozen.states(frozen.held_out, self.layers)
        self.notices: list[str] = []
        self.trained: list[int] = []
        self._validation = Validation(
            task=frozen.task, held_out=frozen.held_out, dev=frozen.dev, pool=frozen.pool, passes=frozen.passes
        )

    def on_solved(self, number: int, solution: Solution) -> None:
        """Save a head that was solved, and log it; a resumed fit solves it again, but does not log it twice."""
        self._save(number)
        if number not in self._solved:
            self.folder.log({"step": 0, "head": number, "strength": solution.strength, "loss": solution.loss})

    def on_begin(self, step: int, total: int) -> None:
        """Begin or resume at a step: cut the log there, and restore dropped heads, best scores and times from it."""
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
        self._show_progress(step, {})
        self._since = time.perf_counter()

    def on_step(self, step: int) -> None:
        """Show progress if that was long ago."""
        if time.monotonic() - self._shown >= SHOW_SECONDS:
            self._show_progress(step, {}, doing=LEARNING)

    def on_log(self, step: int, losses: Mapping[int, float]) -> None:
        """Log the loss of every head, and the seconds of each and of the whole pass."""
        now = time.perf_counter()
        self._spent, self._since = self._spent + now - self._since, now
        by_head = {str(self.trained[number]): loss for number, loss in losses.items()}
        seconds = {str(number): round(self.trainees[number].watch.seconds, 3) for number in self.trained}
        self.folder.log({"step": step, "losses": by_head, "seconds": seconds, SPENT: round(self._spent, 3)})
        lowest = min(losses.values(), default=math.nan)
        self._show_progress(step, {"heads": float(len(losses)), "lowest loss": lowest})

    def on_drop(self, number: int, step: int) -> None:
        """Log that a head was dropped, with the reason."""
        dropped = self.trained[number]
        self._drop(dropped, str(self.trainees[dropped].failure), step)

    def on_validate(self, fraction: float, step: int) -> None:
        """Score the heads still in training on the held-out examples, and save each that improved on its best."""
        self._show_progress(step, {}, doing=f"judging heads at {in_words(fraction, 'epoch')} …")
        alive = [number for number in self.trained if self.trainees[number].failure is None]
        for number, score in self.judge(alive, step).items():
            best = self.best(number)
            better = score is not None and (best is None or score > best)
            logged = defined(score)  # JSON has no NaN
            if better:
                self._save(number)
                self._note_best(number, logged)
            else:
                self._final.pop(number, None)
            self.folder.log({"step": step, "validated": fraction, "head": number, "score": logged, "kept": better})
        self._since = time.perf_counter()  # validation does not count as training

    def judge(self, numbers: Sequence[int], step: int) -> dict[int, float | None]:
        """Score the current state of heads on the held-out examples: `Task.choosing_metric` by number, may be NaN.

        A head with NaN or infinite outputs is dropped and has no score, however well it would do by chance.
        """
        heads = [self.trainees[number].head for number in numbers]
        outputs = dict(zip(numbers, self._read(heads, self.frozen.held_out, self.held_out, step), strict=True))
        finite = [number for number in numbers if all_finite(outputs[number])]
        for number in sorted(set(numbers) - set(finite)):
            self._drop(number, f"its outputs on held-out examples were not finite at step {step}", step)
        if step == self._total:
            self._final = {number: outputs[number] for number in finite}
        return {number: self._validation.score_outputs(outputs[number], None)[1] for number in finite}

    def leaderboard(self) -> list[dict[str, Any]]:
        """A row per saved head with its metrics, best first by dev, or by held-out examples if there is no dev."""
        frozen = self.frozen
        saved = [number for number in range(len(self.trainees)) if self.place(number).is_dir()]
        heads = [load_head(self.place(number)).to(frozen.encoder.device) for number in saved]
        self._show_progress(self._total, {}, doing=f"scoring {in_words(len(heads), 'head')} …")
        held_out = self._held_out_outputs(saved, heads)
        dev: Sequence[Outputs | None] = [None] * len(heads)
        if frozen.dev is not None:
            dev = self._read(heads, frozen.dev, frozen.states(frozen.dev, self.layers), self._total)
        rows = [
            self._row(number, head, *self._validation.score_outputs(held_out_outputs, dev_outputs))
            for number, head, held_out_outputs, dev_outputs in zip(saved, heads, held_out, dev, strict=True)
        ]
        name = ("" if frozen.dev is not None else HELD_OUT_PREFIX) + frozen.task.main_metric
        rows.sort(key=lambda row: -row["metrics"][name] if math.isfinite(row["metrics"][name]) else math.inf)
        for row in rows:
            row["metrics"] = {metric: defined(value) for metric, value in row["metrics"].items()}
        return rows

    def _held_out_outputs(self, saved: Sequence[int], heads: Sequence[Head]) -> list[Outputs]:
        """The outputs of saved heads on the held-out examples; those of the last validation are not computed again."""
        others = {number: head for number, head in zip(saved, heads, strict=True) if number not in self._final}
        computed = self._read(list(others.values()), self.frozen.held_out, self.held_out, self._total)
        outputs = {**self._final, **dict(zip(others, computed, strict=True))}
        return [outputs[number] for number in saved]

    def _row(self, number: int, head: Head, metrics: Mapping[str, float], held_out: float | None) -> dict[str, Any]:
        trainee = self.trainees[number]
        spec = trainee.spec
        return {
            "head": spec.head,
            "options": head.options,
            "lr": spec.lr,
            "seed": spec.seed,
            "fraction": spec.fraction,
            "training": {name: getattr(spec, name) for name in ("schedule", "warmup", "weight_decay", "clip")},
            "solved": number not in self.trained,
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
            tell=lambda doing: self._show_progress(step, {}, doing=doing),
        )

    def _drop(self, number: int, reason: str, step: int | None = None) -> None:
        """Stop the training of a head, and log it at a step; without a step it is in the log already."""
        if step is not None:
            self.folder.log({"step": step, "dropped": number, "reason": reason})
        self.trainees[number].drop(reason)
        self.notices.append(f"head {number} ({self.trainees[number].spec.head}) was dropped: {reason}.")

    def best(self, number: int) -> float | None:
        """The score of the saved state of a head: -inf where not defined, None if no state was saved."""
        return self._best.get(number)

    def _note_best(self, number: int, score: float | None) -> None:
        """Remember the score of a saved head; None, as in the log, if it is not defined."""
        self._best[number] = -math.inf if score is None else score

    def _save(self, number: int) -> None:
        """Save the weights of a head; the previous ones are replaced only when the new ones are complete."""
        with whole_folder(self.place(number), "the head", otherwise="Make room and --resume.") as part:
            save_head(self.trainees[number].head, part)

    def place(self, number: int) -> Path:
        """Folder of a head's saved weights."""
        return self.folder.path / HEADS_FOLDER / f"{number:03}-{self.trainees[number].spec.head}"

    def _show_progress(self, step: int, values: Mapping[str, float], *, doing: str = "") -> None:
        self._shown = time.monotonic()
        if self._show is not None:
            self._show(step, max(self._total, 1), values, doing=doing)
