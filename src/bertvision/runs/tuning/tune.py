"""tune: train an encoder, or part of it, and a head on one task → a run with snapshots and scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bertvision.encoder.delta import changed_weights
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import usual_pool
from bertvision.encoder.own_output import OwnOutput
from bertvision.encoder.snapshot import Snapshot, save_snapshot
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError
from bertvision.heads import Head, HeadOptions, HeadShape, save_head
from bertvision.runs.cut_texts import cut_notice
from bertvision.runs.far_scores import far_scores_notice
from bertvision.runs.few_steps import few_steps_notice
from bertvision.runs.one_label import one_label_notice
from bertvision.runs.parts import examples_digest, training_split
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuned_split import seen_notice
from bertvision.runs.tuning.own_head import find_own_head, load_own_head
from bertvision.runs.tuning.task_head import build_task_head, start_at_mean
from bertvision.runs.tuning.teach import Teacher
from bertvision.runs.tuning.tuning import TuneResult, begin_run, prepare_encoder, run_tuning
from bertvision.runs.validate import Validation
from bertvision.runs.watch import Card, JudgeSnapshot, Show, main_values, tell
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.model import TunedModel


def tune(
    request: TuneRequest,
    out: str | Path,
    *,
    resume: bool = False,
    show: Show | None = None,
    judge: JudgeSnapshot | None = None,
) -> TuneResult:
    """Tune an encoder for a task.

    In distributed training every process calls this function and gets the same result.

    Args:
        request: the settings of the run.
        out: folder of the run.
        resume: continue a run that is in the folder; a finished one returns its result again.
        show: shows progress.
        judge: called with the held-out score of every snapshot; it may end the run by raising. With it, the run does
            not score the dev split.

    Raises:
        BertVisionError: the request cannot work, or the run cannot continue; snapshots are kept.
    """
    started = begin_run(request, out, resume=resume)
    if started.finished is not None:
        return started.finished
    loaded = request.load()
    task, whole_train = loaded.task, training_split(loaded)
    teacher = None if request.teacher is None else Teacher.find(request.teacher, task)
    prepared = prepare_encoder(request, started.accelerator, pooler=request.pooled)
    own = find_own_head(request.encoder, task) if request.head is None else None
    head = _build_head(request, prepared.encoder, task, own)
    tokenizer = TextTokenizer.load(base_encoder(request.encoder))
    train, held_out = request.split(whole_train)
    dev = loaded.splits.get("dev") if judge is None else None
    pool = request.pool or ("cls" if own is not None else usual_pool(request.encoder))
    windows = build_windows(task, train, tokenizer, request.windows)
    if own is not None:
        load_own_head(head, own)
    else:
        start_at_mean(head, task, windows.targets)
    rows = None if task.kind == "spans" else pool
    model = TunedModel(prepared.encoder, head, pool=rows, pooled=request.pooled).to(started.accelerator.device)
    held_out_part, dev_part = (
        None
        if examples is None
        else Part(examples=examples, windows=build_windows(task, examples, tokenizer, request.windows))
        for examples in (held_out, dev)
    )
    validation = Validation(task=task, held_out=held_out_part, dev=dev_part, pool=pool, passes=prepared.passes)
    taught = None
    if teacher is not None:
        if started.accelerator.is_main_process:
            tell(show, f"{teacher.run.name} reads {len(train):,} examples …")
        taught = teacher.read(train, windows, request)
    card = Card(
        run=started.folder.path,
        request=request,
        fingerprint=prepared.fingerprint,
        pool=pool,
        head=head.name,
        labels=task.labels,
        pooled=request.pooled,
        teacher=None if taught is None else taught.fingerprint,
        examples=examples_digest([windows, None if held_out_part is None else held_out_part.windows]),
        held_out=None if held_out_part is None else examples_digest([held_out_part.windows]),
    )
    tune_data = prepared.tune_data(task, windows, pool, None if taught is None else taught.targets)
    keeper = _TaskKeeper(card, model, validation)
    notices = loaded.notices if taught is None else (*loaded.notices, taught.notice)
    notices += seen_notice(request)
    notices += one_label_notice(task, None if held_out_part is None else held_out_part.windows.targets)
    notices += cut_notice(task, windows, request.windows, tokenizer)
    notices += _training_notices(request, task, windows, tune_data.plan(request.options).total)
    return run_tuning(started, model, tune_data, keeper, notices=notices, show=show, judge=judge)


@dataclass(frozen=True, slots=True)
class _TaskKeeper:
    """Saves and scores an encoder with one head."""

    card: Card
    model: TunedModel
    validation: Validation

    def save(self, snapshot: Snapshot) -> None:
        save_snapshot(snapshot, changed_weights(self.model.encoder), partial(save_head, self.model.head))

    def score(self) -> tuple[dict[str, float], float | None]:
        return self.validation.score(self.model)

    def main_values(self, values: Mapping[str, float]) -> dict[str, float]:
        return main_values(self.validation.task, values)


def _training_notices(request: TuneRequest, task: Task, windows: Windows, steps: int) -> tuple[str, ...]:
    """Notices for few optimiser steps, and for scores with an unusual standard deviation."""
    otherwise = "" if task.kind == "spans" else f"bertvision fit {request.task} --heads layer_concat"
    return (
        *few_steps_notice(request.task, steps, request.options.epochs, otherwise=otherwise),
        *far_scores_notice(task, windows.targets, otherwise=otherwise),
    )


def _build_head(request: TuneRequest, encoder: Encoder, task: Task, own: OwnOutput | None) -> Head:
    """The request's head; if it names none, one for the weights that came with the encoder, or `last_layer`."""
    if request.pooled and task.kind == "spans":
        raise BertVisionError(f"--pooled is for tasks with labels, tags or scores, not for {task.name}.")
    if request.pooled and not encoder.can_pool:
        raise BertVisionError(f"--pooled: {encoder.name} has no pooled vector. Leave it out, or use another --encoder.")
    shape = HeadShape(layers=encoder.depth + 1 + request.pooled, width=encoder.width, outputs=task.outputs)
    name: str = request.head or "last_layer"
    defaults: HeadOptions = {}
    if own is not None:
        name, defaults = own.head, own.options
    elif request.head is None:
        defaults = {"dropout": 0.0 if task.kind == "spans" else 0.1}
    head = build_task_head(name, shape, {**defaults, **request.head_options}, task)
    if request.pooled and 0 not in head.reads:
        raise BertVisionError(
            f"--pooled adds the pooled vector as layer 0, which head '{name}' does not read. "
            "Use a head that reads every layer, such as --head layer_mix."
        )
    return head
