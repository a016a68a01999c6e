"""What every run does that changes an encoder: begins or goes on, prepares the encoder, tunes, and tells the result."""

import math
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import nn

from bertvision.device import choose_device
from bertvision.encoder.batch import MULTIPLE
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.encoder.snapshot import Snapshot, list_snapshots
from bertvision.inference.frozen_encoder import in_bfloat16
from bertvision.inference.outputs import PassOptions
from bertvision.lock import lock_folder
from bertvision.objectives import Pool
from bertvision.runs.folder import RunFolder
from bertvision.runs.request import LearnRequest
from bertvision.runs.watch import JudgeSnapshot, Keeper, RunWatcher, Show
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows
from bertvision.training.checkpoint import Progress, remove_checkpoints
from bertvision.training.data import TrainingData, TuneData
from bertvision.training.options import default_rate
from bertvision.training.processes import Processes, join_processes, on_main
from bertvision.training.teacher import TeacherTargets
from bertvision.training.tune import tune_encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What came out of a run.

    Attributes:
        run: its folder.
        trainable: parameters that learnt.
        total: parameters of encoder and heads.
        steps: steps that were made.
        processes: processes that made them together.
        metrics: those of the last snapshot; NaN where one is not defined.
        snapshots: every snapshot.
        notices: what the user should know.
        main: whether this process is the one that reports.
    """

    run: Path
    trainable: int
    total: int
    steps: int
    processes: int
    metrics: dict[str, float]
    snapshots: list[Snapshot]
    notices: tuple[str, ...]
    main: bool


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that has begun, or goes on.

    Attributes:
        folder: folder of the run.
        accelerator: this process among those of the run.
        resume: whether it may go on.
        finished: its result, if there is nothing left to do.
    """

    folder: RunFolder
    accelerator: Processes
    resume: bool
    finished: TuneResult | None


@dataclass(frozen=True, slots=True)
class PreparedEncoder:
    """An encoder that is about to learn.

    Attributes:
        encoder: with what learns set free.
        passes: how it is run when it does not learn.
        fingerprint: fingerprint of its weights before.
        recorded: whether steps are recorded for every shape, so that few shapes should occur.
    """

    encoder: Encoder
    passes: PassOptions
    fingerprint: str
    recorded: bool

    def tune_data(self, task: Task, windows: Windows, pool: Pool, teacher: TeacherTargets | None = None) -> TuneData:
        """What it learns a task from, and from whom."""
        packed = self.passes.packed
        room = packed or self.encoder.has_room(int(windows.sizes.max(initial=0)), MULTIPLE)
        return TuneData(
            task=task,
            windows=windows,
            pool=pool,
            packed=packed,
            pad=self.passes.pad,
            bf16=self.passes.bf16,
            even=self.recorded and room,
            teacher=teacher,
        )


def begin_run(request: LearnRequest, out: str | Path, *, resume: bool, partly: bool = False) -> StartedRun:
    """See whether a run can begin or go on; writes nothing.

    Args:
        request: what is asked for.
        out: folder of the run.
        resume: whether it may go on.
        partly: whether a step may leave parts of the model without a gradient.

    Raises:
        BertVisionError: the request cannot work, or the folder holds something else.
    """
    request.check()
    parse_learn(request.learn)
    folder = RunFolder(Path(out))
    cpu = choose_device(request.device).type == "cpu"
    accelerator = join_processes(cpu=cpu, tracker=request.tracker, run=folder.path, partly=partly)
    return StartedRun(folder, accelerator, resume, _finished(folder, accelerator, request, resume=resume))


def prepare_encoder(request: LearnRequest, accelerator: Processes, *, pooler: bool = False) -> PreparedEncoder:
    """Load the encoder, and set free what learns; the seed of all that follows is the request's.

    Raises:
        BertVisionError: there is no such encoder.
    """
    bf16 = in_bfloat16(request.dtype, accelerator.device)
    # the kernel for packed windows knows no float32, and transformers pools the first of them alone
    packed = accelerator.device.type == "cuda" and bf16 and not pooler
    encoder = load_encoder(request.encoder, pooler=pooler)
    passes = PassOptions(packed=packed and encoder.can_pack, pad=int(encoder.config.pad_token_id or 0), bf16=bf16)
    before = fingerprint(encoder)
    torch.manual_seed(request.options.seed)
    apply_learn(encoder, parse_learn(request.learn))
    if request.compile:
        encoder.compile_layers()
    if request.options.dropout is not None:
        encoder.set_dropout(request.options.dropout)
    recorded = accelerator.device.type == "cuda" and accelerator.num_processes == 1
    return PreparedEncoder(encoder, passes, before, recorded)


def run_tuning(  # noqa: PLR0913 - what a run is made of
    started: StartedRun,
    model: nn.Module,
    data: TrainingData,
    keeper: Keeper,
    *,
    notices: tuple[str, ...] = (),
    show: Show | None = None,
    judge: JudgeSnapshot | None = None,
) -> TuneResult:
    """Tune a model to the end of its run.

    Raises:
        BertVisionError: the run cannot go on; snapshots are kept.
    """
    folder, accelerator, request = started.folder, started.accelerator, keeper.card.request
    rate = request.options.lr
    with ExitStack() as held:
        on_main(accelerator, lambda: held.enter_context(lock_folder(folder.path)))
        # another process may have been here meanwhile
        finished = _finished(folder, accelerator, request, resume=started.resume)
        if finished is not None:
            return finished
        progress = tune_encoder(
            model,
            data,
            request.options,
            run=folder.path,
            fractions=sorted({*request.snapshots, request.options.epochs}),
            watcher=RunWatcher(folder, keeper, accelerator, show, judge),
            accelerator=accelerator,
            rate=rate if rate is not None else default_rate(request.learn),
            save_every=request.save_every,
        )
        on_main(accelerator, lambda: _finish(folder, model, progress, accelerator))
    return _result(folder, accelerator, notices)


def _finished(folder: RunFolder, accelerator: Processes, request: LearnRequest, *, resume: bool) -> TuneResult | None:
    """See whether a run can begin or go on; what came out if it has ended."""
    on_main(accelerator, lambda: folder.check(asdict(request), resume=resume))
    if on_main(accelerator, folder.result) is None:
        return None
    return _result(folder, accelerator, (f"{folder.path} is finished; there was nothing left to do.",))


def _finish(folder: RunFolder, model: nn.Module, progress: Progress, accelerator: Processes) -> None:
    """Write the result, and only then remove what a resumed run would need."""
    scored = [line for line in folder.lines() if "snapshot" in line]
    folder.finish(
        {
            "steps": progress.step,
            "processes": accelerator.num_processes,
            "trainable": sum(value.numel() for value in model.parameters() if value.requires_grad),
            "total": sum(value.numel() for value in model.parameters()),
            "metrics": {name: value for name, value in scored[-1].items() if name not in ("step", "snapshot")},
        }
    )
    remove_checkpoints(folder.path)
    for tracker in accelerator.trackers:
        tracker.finish()


def _result(folder: RunFolder, accelerator: Processes, notices: tuple[str, ...]) -> TuneResult:
    def read() -> TuneResult:
        found = folder.result() or {}
        return TuneResult(
            run=folder.path,
            trainable=found["trainable"],
            total=found["total"],
            steps=found["steps"],
            processes=found["processes"],
            metrics={name: math.nan if value is None else value for name, value in found["metrics"].items()},
            snapshots=list_snapshots(folder.path),
            notices=notices,
            main=True,
        )

    return replace(on_main(accelerator, read), main=accelerator.is_main_process)
