"""tune: a task's name and an encoder's → a run with snapshots and scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from bertvision.encoder.delta import changed_weights
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import mean_pooled
from bertvision.encoder.own_output import OwnOutput
from bertvision.encoder.snapshot import Snapshot, save_snapshot
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError, MisfitError
from bertvision.heads import Head, HeadOptions, HeadShape, build_head, save_head
from bertvision.objectives import Pool
from bertvision.runs.cut_texts import cut_notice
from bertvision.runs.far_scores import far_scores_notice
from bertvision.runs.few_steps import few_steps_notice
from bertvision.runs.parts import examples_digest, split_train, training_split
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuning.own_head import find_own_head, load_own_head
from bertvision.runs.tuning.teach import Teacher
from bertvision.runs.tuning.tuning import Begun, TuneResult, begin_run, learn_lessons, prepare_encoder
from bertvision.runs.validate import Validation
from bertvision.runs.watch import Card, JudgeSnapshot, Show, main_values
from bertvision.tasks.examples import Examples, FloatArray, IntArray
from bertvision.tasks.folds import fold_numbers
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from bertvision.training.model import TunedModel


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
    begun = begin_run(request, out, resume=resume)
    if begun.finished is not None:
        return begun.finished
    loaded = load_task(request.task, data=request.data, columns=request.columns, skip_bad=request.skip_bad)
    train = training_split(loaded)
    teacher = None if request.teacher is None else Teacher.find(request.teacher, loaded.task)
    prepared = prepare_encoder(request, begun.accelerator, pooler=request.pooled)
    encoder = prepared.encoder
    own = find_own_head(request.encoder, loaded.task) if request.head is None else None
    head = _build_head(request, encoder, loaded.task, own)
    tokenizer = TextTokenizer.load(base_encoder(request.encoder))
    learnt, held_out = split_train(
        train, fraction=request.fraction, held_out=request.held_out, seed=request.options.seed
    )
    if request.folds is not None:
        learnt = _without_fold(learnt, train, request)
    pool: Pool = request.pool or ("mean" if own is None and mean_pooled(request.encoder) else "cls")
    windows = build_windows(loaded.task, learnt, tokenizer, request.windows)
    _start_head(head, own, loaded.task, windows.targets)
    rows = None if loaded.task.kind == "spans" else pool
    model = TunedModel(encoder, head, pool=rows, pooled=request.pooled).to(begun.accelerator.device)
    validation = Validation(
        task=loaded.task,
        held_out=_part(loaded, held_out, tokenizer, request.windows),
        dev=_part(loaded, loaded.splits.get("dev") if judge is None else None, tokenizer, request.windows),
        pool=pool,
        passes=prepared.passes,
    )
    taught = None
    if teacher is not None:
        _tell(begun, show, f"{teacher.run.name} reads {len(learnt):,} examples …")
        taught = teacher.read(learnt, windows, request)
    card = Card(
        run=begun.folder.path,
        request=request,
        fingerprint=prepared.fingerprint,
        pool=pool,
        head=head.name,
        labels=loaded.task.labels,
        pooled=request.pooled,
        teacher=None if taught is None else taught.fingerprint,
        examples=examples_digest([windows, None if validation.held_out is None else validation.held_out.windows]),
    )
    lessons = prepared.lessons(loaded.task, windows, pool, None if taught is None else taught.targets)
    keeper = _TaskKeeper(card, model, validation)
    notices = loaded.notices if taught is None else (*loaded.notices, taught.notice)
    notices += cut_notice(loaded.task, windows, request.windows, tokenizer)
    notices += _of_training(request, loaded.task, windows, lessons.plan(request.options).total)
    return learn_lessons(begun, model, lessons, keeper, notices=notices, show=show, judge=judge)


@dataclass(frozen=True, slots=True)
class _TaskKeeper:
    """Keeps an encoder with its one head."""

    card: Card
    model: TunedModel
    validation: Validation

    def save(self, snapshot: Snapshot) -> None:
        save_snapshot(snapshot, changed_weights(self.model.encoder), partial(save_head, self.model.head))

    def score(self) -> tuple[dict[str, float], float | None]:
        return self.validation.score(self.model)

    def main_values(self, values: Mapping[str, float]) -> dict[str, float]:
        return main_values(self.validation.task, values)


def _of_training(request: TuneRequest, task: Task, windows: Windows, steps: int) -> tuple[str, ...]:
    """Notices where few steps are made, or scores are of unusual size."""
    otherwise = "" if task.kind == "spans" else f"bertvision fit {request.task} --heads layer_concat"
    return (
        *few_steps_notice(request.task, steps, request.options.epochs, otherwise=otherwise),
        *far_scores_notice(task, windows.targets, otherwise=otherwise),
    )


def _tell(begun: Begun, show: Show | None, doing: str) -> None:
    """Say what takes long now; one process speaks."""
    if show is not None and begun.accelerator.is_main_process:
        show(0, 1, {}, doing=doing)


def _without_fold(learnt: Examples, train: Examples, request: TuneRequest) -> Examples:
    """The examples that are in other folds than the one that is left out; folds are those of the whole split."""
    numbers = dict(zip(train.ids, fold_numbers(train, request.folds or 1).tolist(), strict=True))
    kept = np.flatnonzero([numbers[key] != request.fold for key in learnt.ids])
    if not len(kept):
        raise BertVisionError(f"fold {request.fold} holds all {len(learnt)} examples. Use a larger --fraction.")
    return learnt.select(kept)


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
    try:
        head = build_head(name, shape, {**usual, **request.head_options})
    except BertVisionError as error:
        raise MisfitError(str(error)) from None
    if head.token_pool is not None and task.kind == "spans":
        raise MisfitError(f"tokens=attention makes one row of a text; {task.name} needs one for every token.")
    if request.pooled and 0 not in head.reads:
        raise BertVisionError(
            f"--pooled adds the pooled vector as layer 0, which head '{name}' does not read. "
            "Use a head that reads every layer, such as --head layer_mix."
        )
    return head


def _start_head(head: Head, own: OwnOutput | None, task: Task, targets: IntArray | FloatArray) -> None:
    """A better start than zero: the encoder's own output where it has one, the mean score for scores."""
    if own is not None:
        load_own_head(head, own)
    elif task.kind == "scores":
        head.project.bias.data.fill_(float(np.mean(targets)))
