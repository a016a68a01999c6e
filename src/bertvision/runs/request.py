"""LearnRequest, TeacherRequest and TuneRequest: all that a tuned run depends on, as a value."""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from typing_extensions import override

from bertvision.errors import BertVisionError, refuse
from bertvision.heads.head import HeadOptions
from bertvision.objectives import Pool
from bertvision.runs.data_request import DataRequest
from bertvision.runs.parts import split_train
from bertvision.tasks.examples import Examples
from bertvision.tasks.folds import fold_numbers
from bertvision.training.options import TuneOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnRequest(DataRequest):
    """What every run depends on that changes an encoder.

    Attributes:
        learn: what learns; see `parse_learn`.
        options: how to tune.
        snapshots: epochs after which to keep a snapshot; the end is always kept.
        fraction: share of the training examples to use.
        held_out: share of the training examples that nobody learns from.
        pool: which row counts for labels, tags and scores; None takes what the encoder was trained with.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto` computes in bfloat16 on a GPU.
        compile: compile the encoder's layers before anything else.
        save_every: steps between checkpoints; None makes one a minute.
        tracker: where Accelerate reports to, such as `tensorboard`.
    """

    learn: str = "full"
    options: TuneOptions = field(default_factory=TuneOptions)
    snapshots: tuple[float, ...] = ()
    fraction: float = 1.0
    held_out: float = 0.05
    pool: Pool | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    save_every: int | None = None
    tracker: str | None = None

    def split(self, train: Examples) -> tuple[Examples, Examples | None]:
        """What is learned from, and what is held out; see `split_train`.

        Raises:
            BertVisionError: there are too few examples.
        """
        return split_train(train, fraction=self.fraction, held_out=self.held_out, seed=self.options.seed)

    def check(self) -> None:
        """Refuse values that cannot work, all at once.

        Raises:
            BertVisionError: naming every option with its value.
        """
        refuse(self.problems())

    def problems(self) -> list[str]:
        """What cannot work, option by option."""
        problems = self.options.problems()
        if not 0.0 < self.fraction <= 1.0:
            problems.append(f"--fraction is {self.fraction:g}, more than 0 and at most 1 is expected")
        if not 0.0 <= self.held_out < 1.0:
            problems.append(f"--held-out is {self.held_out:g}, at least 0 and less than 1 is expected")
        if self.save_every is not None and self.save_every < 1:
            problems.append(f"--save-every is {self.save_every}, at least 1 is expected")
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherRequest:
    """From whom a run learns besides its data.

    Attributes:
        run: a tuned run with its own output: `RUN` or `RUN@0.3`.
        share: how much of the loss comes from the teacher.
        temperature: softens what it says; see `teacher_losses`.
    """

    run: str
    share: float = 0.7
    temperature: float = 2.0

    def problems(self) -> list[str]:
        """What cannot work, option by option."""
        problems = []
        if not 0.0 < self.share <= 1.0:
            problems.append(f"--teacher-share is {self.share:g}, more than 0 and at most 1 is expected")
        if not 0.0 < self.temperature < math.inf:
            problems.append(f"--teacher-temperature is {self.temperature:g}, more than 0 is expected")
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest(LearnRequest):
    """All that a run tuned for one task depends on.

    Attributes:
        head: what reads the layers, by name; None takes the checkpoint's own output, or `last_layer`.
        head_options: options of that head; see `build_head`.
        pooled: give the head the encoder's pooled vector as one more layer; for labels, tags and scores.
        folds: how many folds the training examples are in; None has none.
        fold: the one that nobody learns from.
        teacher: from whom to learn besides the data; None has no teacher.
    """

    head: str | None = None
    head_options: HeadOptions = field(default_factory=dict)
    pooled: bool = False
    folds: int | None = None
    fold: int | None = None
    teacher: TeacherRequest | None = None

    @override
    def split(self, train: Examples) -> tuple[Examples, Examples | None]:
        learnt, held_out = LearnRequest.split(self, train)
        if self.folds is None:
            return learnt, held_out
        # folds are those of the whole split
        numbers = dict(zip(train.ids, fold_numbers(train, self.folds).tolist(), strict=True))
        kept = np.flatnonzero([numbers[key] != self.fold for key in learnt.ids])
        if not len(kept):
            raise BertVisionError(f"fold {self.fold} holds all {len(learnt)} examples. Use a larger --fraction.")
        return learnt.select(kept), held_out

    @override
    def problems(self) -> list[str]:
        problems = LearnRequest.problems(self)
        if self.teacher is not None:
            problems += self.teacher.problems()
        if (self.folds is None) != (self.fold is None):
            problems.append(f"fold is {self.fold} of {self.folds} folds, both or none are expected")
        elif self.folds is not None and self.fold is not None and not 0 <= self.fold < self.folds:
            problems.append(f"fold is {self.fold}, 0 to {self.folds - 1} is expected")
        return problems
