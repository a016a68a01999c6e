"""tune: a task's name and an encoder's → a run with snapshots and scores."""

import math
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.encoder.load import fingerprint, load_encoder, mean_pooled
from bertvision.encoder.own_output import OwnOutput, own_output
from bertvision.encoder.snapshot import Snapshot, base_encoder, list_snapshots
from bertvision.errors import BertVisionError
from bertvision.heads import Head, HeadOptions, HeadShape, build_head
from bertvision.lock import lock_folder
from bertvision.objectives import Pool
from bertvision.runs.folder import RunFolder
from bertvision.runs.outputs import PassOptions
from bertvision.runs.parts import choose_device, split_train
from bertvision.runs.request import TuneRequest
from bertvision.runs.validate import Part, Validation
from bertvision.runs.watch import Card, JudgeSnapshot, RunWatcher, Show
from bertvision.tasks.examples import Examples, FloatArray, IntArray
from bertvision.tasks.folds import fold_numbers
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, build_windows
from bertvision.training.checkpoint import Progress, remove_checkpoints
from bertvision.training.model import TunedModel
from bertvision.training.options import default_rate
from bertvision.training.processes import Processes, join_processes, on_main
from bertvision.training.tune import TuneData, tune_encoder


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneResult:
    """What came out of a run.

    Attributes:
        run: its folder.
        trainable: parameters that learnt.
        total: parameters of encoder and head.
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


def tune(
    request: TuneRequest,
    out: str | Path,
    *,
    resume: bool = False,
    show: Show | None = None,
    judge: JudgeSnapshot | None = None,
) -> TuneResult:
    """Tune an encoder for a task; a killed run goes on with `resume`, and a finished one gives its result again.

    Launched in several processes, each of them calls it and gets the same result.

    Args:
        request: what to tune.
        out: folder of the run.
        resume: go on with a run that was interrupted.
        show: is told how far it is.
        judge: looks at every snapshot's held-out score, and may end the run by raising; the dev split is then left
            alone.

    Raises:
        BertVisionError: something in the request does not fit, or the run cannot go on; snapshots are kept.
    """
    request.check()
    learn = parse_learn(request.learn)
    folder = RunFolder(Path(out))
    accelerator = join_processes(
        cpu=choose_device(request.device).type == "cpu", tracker=request.tracker, run=folder.path
    )
    on_main(accelerator, lambda: folder.check(asdict(request), resume=resume))
    if on_main(accelerator, folder.result) is not None:
        return _result(folder, accelerator, (f"{folder.path} is finished; there was nothing left to do.",))
    loaded = load_task(request.task, data=request.data, columns=request.columns, skip_bad=request.skip_bad)
    if "train" not in loaded.splits:
        raise BertVisionError(f"{loaded.task.name} has no train split here, so there is nothing to learn from.")

    bf16 = request.dtype == "bfloat16" or (request.dtype == "auto" and accelerator.device.type == "cuda")
    # the kernel for packed windows knows no float32, and transformers pools the first of them alone
    packed = accelerator.device.type == "cuda" and bf16 and not request.pooled
    encoder = load_encoder(request.encoder, packed=packed, pooler=request.pooled)
    passes = PassOptions(packed=packed and encoder.can_pack, pad=int(encoder.config.pad_token_id or 0), bf16=bf16)
    before = fingerprint(encoder)
    torch.manual_seed(request.options.seed)
    apply_learn(encoder, learn)
    if request.compile:
        encoder.compile_layers()
    if request.options.dropout is not None:
        encoder.set_dropout(request.options.dropout)
    own = own_output(request.encoder, loaded.task.kind, loaded.task.outputs) if request.head is None else None
    head = _build_head(request, encoder, loaded.task, own)
    tokenizer = TextTokenizer.load(base_encoder(request.encoder))
    learnt, held_out = split_train(
        loaded.splits["train"], fraction=request.fraction, held_out=request.held_out, seed=request.options.seed
    )
    if request.folds is not None:
        learnt = _without_fold(learnt, loaded.splits["train"], request)
    pool: Pool = request.pool or ("mean" if own is None and mean_pooled(request.encoder) else "cls")
    windows = build_windows(loaded.task, learnt, tokenizer, request.windows)
    _start_head(head, own, loaded.task, windows.targets)
    rows = None if loaded.task.kind == "spans" else pool
    model = TunedModel(encoder, head, pool=rows, pooled=request.pooled).to(accelerator.device)
    validation = Validation(
        task=loaded.task,
        held_out=_part(loaded, held_out, tokenizer, request.windows),
        dev=_part(loaded, loaded.splits.get("dev") if judge is None else None, tokenizer, request.windows),
        pool=pool,
        passes=passes,
    )
    card = Card(request, before, pool, loaded.task, head)
    with ExitStack() as held:
        on_main(accelerator, lambda: held.enter_context(lock_folder(folder.path)))
        progress = tune_encoder(
            model,
            TuneData(task=loaded.task, windows=windows, pool=pool, packed=passes.packed, pad=passes.pad, bf16=bf16),
            request.options,
            run=folder.path,
            fractions=sorted({*request.snapshots, request.options.epochs}),
            watcher=RunWatcher(folder, model, validation, card, accelerator, show, judge),
            accelerator=accelerator,
            rate=request.options.lr if request.options.lr is not None else default_rate(request.learn),
            save_every=request.save_every,
        )
        on_main(accelerator, lambda: _finish(folder, model, progress, accelerator))
    return _result(folder, accelerator, loaded.notices)


def _without_fold(learnt: Examples, train: Examples, request: TuneRequest) -> Examples:
    """The examples that are in other folds than the one that is left out; folds are those of the whole split."""
    numbers = dict(zip(train.ids, fold_numbers(train, request.folds or 1).tolist(), strict=True))
    kept = np.flatnonzero([numbers[key] != request.fold for key in learnt.ids])
    if not len(kept):
        raise BertVisionError(f"fold {request.fold} holds all {len(learnt)} examples. Use a larger --fraction.")
    return learnt.select(kept)


def _finish(folder: RunFolder, model: TunedModel, progress: Progress, accelerator: Processes) -> None:
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


def _part(loaded: TaskData, examples: Examples | None, tokenizer: TextTokenizer, options: WindowOptions) -> Part | None:
    if examples is None:
        return None
    return Part(examples=examples, windows=build_windows(loaded.task, examples, tokenizer, options))


def _build_head(request: TuneRequest, encoder: Encoder, task: Task, own: OwnOutput | None) -> Head:
    """The head that was asked for, the checkpoint's own, or the plain one."""
    if request.pooled and task.kind == "spans":
        raise BertVisionError(f"--pooled is for tasks with labels, tags or scores, not for {task.name}.")
    if request.pooled and not encoder.can_pool:
        raise BertVisionError(f"--pooled: {encoder.name} has no pooled vector. Leave it out, or use another --encoder.")
    shape = HeadShape(layers=encoder.depth + 1 + request.pooled, width=encoder.width, outputs=task.outputs)
    name: str = request.head or "last_layer"
    usual: HeadOptions = {}
    if own is not None:
        name, usual = own.head, own.options
    elif request.head is None:
        usual = {"dropout": 0.0 if task.kind == "spans" else 0.1}
    head = build_head(name, shape, {**usual, **request.head_options})
    if head.token_pool is not None and task.kind == "spans":
        raise BertVisionError(f"tokens=attention makes one row of a text; {task.name} needs one for every token.")
    if request.pooled and 0 not in head.reads:
        raise BertVisionError(
            f"--pooled adds the pooled vector as layer 0, which head '{name}' does not read. "
            "Use a head that reads every layer, such as --head layer_mix."
        )
    return head


def _start_head(head: Head, own: OwnOutput | None, task: Task, targets: IntArray | FloatArray) -> None:
    """A better start than zero: the checkpoint's own output where it has one, the mean score for scores."""
    if own is not None:
        head.load_state_dict(own.weights, strict=head.token_pool is None)  # a query is nobody's own
    elif task.kind == "scores":
        head.project.bias.data.fill_(float(np.mean(targets)))
