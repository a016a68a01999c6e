"""LearnRequest, TeacherRequest and TuneRequest: the settings of a run that tunes an encoder."""

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
    """The settings that all runs share that train an encoder: for one task, for several, or on triplets.

    Attributes:
        learn: which of the encoder's parameters are trained; see `parse_learn`.
        options: training options.
        snapshots: epochs after which a snapshot is saved; one is always saved at the end.
        fraction: share of the training examples to use.
        held_out: share of the used examples to hold out.
        pool: how tokens are pooled, for labels, tags and scores; None pools as the encoder was trained.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto` computes in bfloat16 on a GPU, and in float32 on a CPU.
        compile: compile the encoder's layers with `torch.compile`.
        save_every: steps between checkpoints; None saves one about every minute.
        tracker: experiment tracker that Accelerate reports to, such as `tensorboard`; None for none.
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
        """The training examples, and the held-out ones (None if none are held out); see `split_train`.

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
        """One message for every option with an invalid value."""
        problems = self.options.problems()
        if not 0.0 < self.fraction <= 1.0:
            problems.append(f"--fraction is {self.fraction:g}, more than 0 and at most 1 is expected")
        if not 0.0 <= self.held_out < 1.0:
            problems.append(f"--held-out is {self.held_out:g}, at least 0 and less than 1 is expected")
        if self.options.patience is not None and self.held_out == 0.0:
            problems.append(
                f"--patience is {self.options.patience}, but --held-out is 0, which leaves no examples to judge by"
            )
        if self.save_every is not None and self.save_every < 1:
            problems.append(f"--save-every is {self.save_every}, at least 1 is expected")
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherRequest:
    """The settings of knowledge distillation.

    Attributes:
        run: the teacher, a run that was tuned for one task: `RUN` or `RUN@0.3`.
        share: share of the loss that compares with the teacher's outputs; the rest compares with the labels.
        temperature: divides the logits of teacher and student before the softmax; see `teacher_losses`.
    """

    run: str
    share: float = 0.7
    temperature: float = 2.0

    def problems(self) -> list[str]:
        """One message for every option with an invalid value."""
        problems = []
        if not 0.0 < self.share <= 1.0:
            problems.append(f"--teacher-share is {self.share:g}, more than 0 and at most 1 is expected")
        if not 0.0 < self.temperature < math.inf:
            problems.append(f"--teacher-temperature is {self.temperature:g}, more than 0 is expected")
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest(LearnRequest):
    """The settings of a run that tunes an encoder for one task.

    Attributes:
        head: name of the head; None takes the output that a fine-tuned checkpoint has already, or else `last_layer`.
        head_options: options of that head; see `build_head`.
        pooled: give the head the encoder's pooled vector as one more layer, layer 0; for labels, tags and scores.
        folds: number of folds, for one run of a cross-fit; None for any other run.
        fold: the fold that is left out of training; None for any other run.
        teacher: settings of knowledge distillation; None trains on the labels alone.
    """

    head: str | None = None
    head_options: HeadOptions = field(default_factory=dict)
    pooled: bool = False
    folds: int | None = None
    fold: int | None = None
    teacher: TeacherRequest | None = None

    @override
    def split(self, train: Examples) -> tuple[Examples, Examples | None]:
        used, held_out = LearnRequest.split(self, train)
        if self.folds is None:
            return used, held_out
        # folds of all examples, so that they are the same whatever part of them is used or held out
        numbers = dict(zip(train.ids, fold_numbers(train, self.folds).tolist(), strict=True))
        rows = np.flatnonzero([numbers[key] != self.fold for key in used.ids])
        if not len(rows):
            raise BertVisionError(f"fold {self.fold} holds all {len(used)} examples. Use a larger --fraction.")
        return used.select(rows), held_out

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
