"""What all runs that train an encoder share: check the folder, prepare the encoder, train it, write the result."""

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
    """The result of a run.

    Attributes:
        run: its folder.
        trainable: number of trained parameters.
        total: number of all parameters, of encoder and heads.
        steps: number of optimiser steps.
        processes: number of processes in distributed training; 1 otherwise.
        metrics: metrics of the last snapshot by name; NaN where not defined.
        snapshots: all snapshots.
        notices: messages for the user.
        main: whether this is the main process, which reports.
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
    """A run whose request and folder have been checked.

    Attributes:
        folder: folder of the run.
        accelerator: this process and the others of distributed training.
        resume: whether a run in the folder may be continued.
        finished: its result, if it is finished already; otherwise None.
    """

    folder: RunFolder
    accelerator: Processes
    resume: bool
    finished: TuneResult | None


@dataclass(frozen=True, slots=True)
class PreparedEncoder:
    """An encoder ready for training.

    Attributes:
        encoder: the encoder; the parameters to train require gradients.
        passes: options of forward passes without training.
        fingerprint: fingerprint of its weights before training.
        recorded: whether training steps are recorded as CUDA graphs, one per shape, so that there should be few shapes.
    """

    encoder: Encoder
    passes: PassOptions
    fingerprint: str
    recorded: bool

    def tune_data(self, task: Task, windows: Windows, pool: Pool, teacher: TeacherTargets | None = None) -> TuneData:
        """The training data of a task in the form that this encoder reads.

        Args:
            task: the task.
            windows: its training windows.
            pool: how tokens are pooled, for labels, tags and scores.
            teacher: outputs of a teacher on these windows; None trains on the labels alone.
        """
        packed = self.passes.packed
        has_room = packed or self.encoder.has_room(int(windows.sizes.max(initial=0)), MULTIPLE)
        return TuneData(
            task=task,
            windows=windows,
            pool=pool,
            packed=packed,
            pad=self.passes.pad,
            bf16=self.passes.bf16,
            even=self.recorded and has_room,
            teacher=teacher,
        )


def begin_run(request: LearnRequest, out: str | Path, *, resume: bool, partly: bool = False) -> StartedRun:
    """Check that a run can begin in a folder, or be resumed; writes nothing.

    Args:
        request: the settings of the run.
        out: folder of the run.
        resume: whether a run in the folder may be continued.
        partly: whether a training step may leave parameters without a gradient, as with several heads.

    Raises:
        BertVisionError: the request cannot work, or the folder holds other files or a run that cannot be resumed.
    """
    request.check()
    parse_learn(request.learn)
    folder = RunFolder(Path(out))
    cpu = choose_device(request.device).type == "cpu"
    accelerator = join_processes(cpu=cpu, tracker=request.tracker, run=folder.path, partly=partly)
    return StartedRun(folder, accelerator, resume, _finished(folder, accelerator, request, resume=resume))


def prepare_encoder(request: LearnRequest, accelerator: Processes, *, pooler: bool = False) -> PreparedEncoder:
    """Load the encoder, choose the parameters to train, and seed PyTorch for all initial weights that follow.

    Args:
        request: the settings of the run.
        accelerator: knows the device.
        pooler: whether the encoder's pooled vector is needed.

    Raises:
        BertVisionError: the encoder cannot be loaded, or has no layers or parameters as `learn` needs them.
    """
    bf16 = in_bfloat16(request.dtype, accelerator.device)
    # the attention kernel for packed windows needs bfloat16; the pooler of transformers reads the first window only
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
    """Train a model to the end of its run, and write the result.

    Args:
        started: what `begin_run` returned.
        model: the model.
        data: its training data.
        keeper: saves and scores it.
        notices: messages for the user, to be returned with the result.
        show: shows progress.
        judge: sees the score of every snapshot, and may end the run by raising.

    Raises:
        BertVisionError: the run cannot continue, such as for a loss that is not finite; snapshots are kept.
    """
    folder, accelerator, request = started.folder, started.accelerator, keeper.card.request
    rate = request.options.lr
    with ExitStack() as held:
        on_main(accelerator, lambda: held.enter_context(lock_folder(folder.path)))
        # again, now that the folder is locked: another process may have finished the run meanwhile
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
    """Check that a run can begin or be resumed; returns its result if it is finished already."""
    on_main(accelerator, lambda: folder.check(asdict(request), resume=resume))
    if on_main(accelerator, folder.result) is None:
        return None
    return _result(folder, accelerator, (f"{folder.path} is finished; there was nothing left to do.",))


def _finish(folder: RunFolder, model: nn.Module, progress: Progress, accelerator: Processes) -> None:
    """Write the result, and only then remove the checkpoints."""
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
        result = folder.result() or {}
        return TuneResult(
            run=folder.path,
            trainable=result["trainable"],
            total=result["total"],
            steps=result["steps"],
            processes=result["processes"],
            metrics={name: math.nan if value is None else value for name, value in result["metrics"].items()},
            snapshots=list_snapshots(folder.path),
            notices=notices,
            main=True,
        )

    return replace(on_main(accelerator, read), main=accelerator.is_main_process)
