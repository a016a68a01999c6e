"""Teacher: a tuned run whose outputs on the training examples another run is trained on (knowledge distillation)."""

import time
from dataclasses import dataclass

import numpy as np

from bertvision.encoder.snapshot import Snapshot
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import SpanScores
from bertvision.heads.files import WEIGHTS
from bertvision.inference.frozen_encoder import frozen_passes, load_frozen
from bertvision.inference.own_scores import own_scores
from bertvision.provenance import file_digest
from bertvision.runs.judging.finished import FinishedRun, open_run
from bertvision.runs.request import TeacherRequest, TuneRequest
from bertvision.tasks.examples import Examples
from bertvision.tasks.load import TASKS
from bertvision.tasks.own import OWN
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.teacher import TeacherTargets


@dataclass(frozen=True, slots=True)
class TeacherOutputs:
    """The outputs of a teacher on the training examples.

    Attributes:
        targets: its outputs, aligned to the student's windows.
        fingerprint: fingerprint of its encoder and head.
        notice: a message for the user.
    """

    targets: TeacherTargets
    fingerprint: str
    notice: str


@dataclass(frozen=True, slots=True)
class Teacher:
    """A tuned run that can be the teacher for a task.

    Attributes:
        settings: settings of the distillation.
        run: the run.
        own: the snapshot to use, with its own output.
        task: the task of the student.
    """

    settings: TeacherRequest
    run: FinishedRun
    own: Snapshot
    task: Task

    @classmethod
    def find(cls, settings: TeacherRequest, task: Task) -> "Teacher":
        """Find a teacher; no encoder is loaded.

        Raises:
            BertVisionError: there is no such run, it is a fit of heads, or its task has another kind, other labels or
                another range of scores.
        """
        run = open_run(settings.run)
        if run.heads or run.own is None:
            raise BertVisionError(
                f"--teacher {settings.run} is a fit of heads. Expected a tuned run with its own output: "
                f"bertvision tune {task.name}"
            )
        theirs = _task_of(run)
        if (theirs.kind, theirs.labels, theirs.limits) != (task.kind, task.labels, task.limits):
            raise BertVisionError(
                f"--teacher {settings.run} was tuned for {_described(theirs)}; {_described(task)} is to be learned. "
                "Use a teacher of the same kind with the same labels."
            )
        return cls(settings, run, run.own, task)

    def read(self, examples: Examples, windows: Windows, request: TuneRequest) -> TeacherOutputs:
        """Compute the teacher's outputs on all training examples, in windows of its own length and tokenizer.

        In distributed training every process computes all of them.

        Args:
            examples: training examples.
            windows: the student's windows of these examples.
            request: the student's request.

        Raises:
            BertVisionError: the encoder or the head cannot be loaded.
        """
        begin = time.perf_counter()
        name = self.run.request.encoder
        encoder = load_frozen(name, device=request.device, dtype=request.dtype)
        passes = frozen_passes(encoder, dtype=request.dtype)
        tokenizer = TextTokenizer.load(base_encoder(name))
        own_windows = build_windows(self.task, examples, tokenizer, self.run.request.windows)
        [outputs] = own_scores(self.own, encoder, [own_windows], name=name, passes=passes, task=self.task)
        scores = np.stack([outputs.start, outputs.end], axis=1) if isinstance(outputs, SpanScores) else outputs
        targets = TeacherTargets.align(
            self.task, windows, own_windows, scores, share=self.settings.share, temperature=self.settings.temperature
        )
        notice = f"{self.run.name} read {len(examples):,} examples in {time.perf_counter() - begin:.1f} s."
        untaught = int((~targets.taught).sum())
        if untaught:
            notice += (
                f" {untaught:,} of {len(windows):,} windows are learned without it: "
                "none of its tokens begins or ends where their answers do."
            )
        return TeacherOutputs(targets, self._fingerprint(), notice)

    def _fingerprint(self) -> str:
        """Fingerprints of the encoder before tuning, its changes and the head; the same on every device."""
        files = (self.own.changes, self.own.folder / WEIGHTS)
        return "+".join([self.own.fingerprint, *(file_digest(path)[:16] for path in files)])


def _task_of(run: FinishedRun) -> Task:
    return run.request.load().task if run.request.task == OWN else TASKS[run.request.task]


def _described(task: Task) -> str:
    return f"{task.name} ({task.kind}{': ' if task.labels else ''}{', '.join(task.labels)})"
