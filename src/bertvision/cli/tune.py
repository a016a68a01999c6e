"""`bertvision tune`: stage 1, fine-tune an encoder for a task, with snapshots at fractions of an epoch."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bertvision.cli.leaderboard import shown_metrics
from bertvision.cli.learn_options import LearnOptions, print_result, result_as_json
from bertvision.cli.output import ProgressBar, print_json, print_notes, print_table
from bertvision.cli.task_options import parse_settings
from bertvision.errors import BertVisionError
from bertvision.evaluation.held_out import HELD_OUT_PREFIX

if TYPE_CHECKING:
    from bertvision.runs.request import TeacherRequest, TuneRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(LearnOptions):
    """Options of `bertvision tune`."""

    task: str
    """Name of a task; 'bertvision ls tasks' lists them."""

    head: str | None = None
    """Head to train on top of the encoder; 'bertvision ls heads' lists them (default: the output head that the
    encoder brings with it for this kind of task, else last_layer)."""

    set: tuple[str, ...] = ()
    """Set an option of the head, such as size=64; repeat for more."""

    pooled: bool = False
    """Give the head the encoder's own pooled vector as an additional layer; for labels, tags and scores."""

    cross_fit: int | None = None
    """Split the training examples into this many folds, and tune an encoder without each fold and one on all examples,
    for 'bertvision fit --cross-fit'."""

    teacher: str | None = None
    """Knowledge distillation: a tuned run for the same kind of task, RUN or RUN@0.3. The encoder is trained on its
    outputs as well as on the labels."""

    teacher_share: float = 0.7
    """Weight of the teacher's part in the loss: more than 0, at most 1."""

    teacher_temperature: float = 2.0
    """Temperature that softens the outputs of teacher and student before they are compared; 1 leaves them unchanged."""

    out: Path | None = None
    """Folder for the run, or for the runs of a cross-fit (default: runs/TASK-LEARN)."""


def run(options: Options) -> int:
    """Tune."""
    from bertvision.runs.request import TuneRequest  # noqa: PLC0415 - imports torch, and help should open at once
    from bertvision.runs.tuning.tune import tune  # noqa: PLC0415
    from bertvision.training.processes import leave_processes  # noqa: PLC0415

    request = TuneRequest(
        **options.fields_of(options.task),
        **options.learn_fields(),
        head=options.head,
        head_options=parse_settings(options.set),
        pooled=options.pooled,
        teacher=_teacher(options),
    )
    out = options.out or Path("runs") / f"{options.task}-{options.learn.replace(':', '')}"
    if options.cross_fit is not None:
        return _run_folds(options, request, options.cross_fit, out)
    with ProgressBar(f"tune {options.task}") as bar:
        result = tune(request, out, resume=options.resume, show=bar.show)
    leave_processes()
    if result.main:
        print_notes(result.notices)
        print_result(result, as_json=options.json)
    return 0


def _teacher(options: Options) -> "TeacherRequest | None":
    """The settings of distillation; None without --teacher."""
    from bertvision.runs.request import TeacherRequest  # noqa: PLC0415 - imports torch

    if options.teacher is not None:
        return TeacherRequest(run=options.teacher, share=options.teacher_share, temperature=options.teacher_temperature)
    for name in ("teacher_share", "teacher_temperature"):
        if name in options.given:
            raise BertVisionError(f"--{name.replace('_', '-')} is for a --teacher, and there is none. Name one: RUN.")
    return None


def _run_folds(options: Options, request: "TuneRequest", folds: int, out: Path) -> int:
    """Tune the encoders of a cross-fit."""
    from bertvision.runs.tuning.cross_fit import tune_folds  # noqa: PLC0415 - imports torch
    from bertvision.training.processes import leave_processes  # noqa: PLC0415

    with ProgressBar(f"tune {options.task}") as bar:
        result = tune_folds(request, folds, out, resume=options.resume, show=bar.show)
    leave_processes()
    if not result.main:
        return 0
    print_notes(result.notices)
    if options.json:
        print_json({name: result_as_json(tuned) for name, tuned in result.results.items()})
        return 0
    metrics = [tuned.metrics for tuned in result.results.values()]
    columns = [*shown_metrics(metrics, HELD_OUT_PREFIX), *shown_metrics(metrics)]
    rows = [[name, run.steps, *(run.metrics.get(key) for key in columns)] for name, run in result.results.items()]
    print_table(f"{result.run}: {folds} folds and the whole", ["run", "steps", *columns], rows)
    return 0
