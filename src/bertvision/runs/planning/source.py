"""The source `auto` of a fit's states: a plan is made once, written to plan.json, and followed by resumed fits, too."""

import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path

from bertvision.amounts import in_bytes, in_layers, in_seconds
from bertvision.atomic import write_json
from bertvision.errors import BertVisionError
from bertvision.heads import HEADS, blank_head
from bertvision.inference.outputs import BATCH_TOKENS
from bertvision.inference.pair_rows import PARTS
from bertvision.runs.fitting.extract import ExtractRequest, default_store, extract_states
from bertvision.runs.fitting.fit_request import STORE, STREAM, FitRequest
from bertvision.runs.fitting.frozen import FrozenTask
from bertvision.runs.fitting.solve import CONVEX
from bertvision.runs.planning.free_memory import free_memory
from bertvision.runs.planning.measure_rates import STORE_BYTES, has_room_to_try, measure_rows, measure_spans, rough_rate
from bertvision.runs.planning.plan_costs import Limits, RowWork, Source, SpanWork
from bertvision.runs.planning.planner import FitPlan, plan_rows, plan_spans, plan_stream, why_no_store
from bertvision.runs.watch import Show, tell
from bertvision.store.reader import StoreReader
from bertvision.store.writer import SHARD_WINDOWS
from bertvision.tasks.files import read_json
from bertvision.training.trainee import HeadSpec

PLAN, OWN_STORE = "plan.json", "store"

SHORT_SECONDS = 30.0
"""If all encoding takes less, measuring is not worth its time."""


def plan_source(frozen: FrozenTask, layers: range, out: Path, *, always: bool) -> FitPlan:
    """Measure and choose a source; writes nothing but a trial store, which is removed.

    Args:
        frozen: the task.
        layers: from the lowest to the highest layer that any head reads.
        out: folder of the run, in which a store would be made.
        always: measure even if the choice is clear without, so that the plan has costs.
    """
    request = frozen.request
    place = _existing(out)
    limits = Limits(
        disk=request.max_disk,
        free_disk=shutil.disk_usage(place).free,
        memory=request.max_memory,
        free_memory=free_memory(),
    )
    if frozen.in_memory:
        trained = [spec for spec in request.heads if not _is_solved(spec, request)]
        return plan_rows(row_work(frozen, layers), measure_rows(frozen, trained, layers) if always else None, limits)
    work = span_work(frozen, layers)
    reason = _no_store(frozen)
    if reason is not None:
        return plan_stream(work, limits, reason)
    stored = _finished_store(frozen, layers)
    if not always:
        reason = why_no_store(work, limits) if stored is None else None
        seconds = 0.0 if reason else rough_rate(frozen, layers) * work.streamed
        if reason or seconds < SHORT_SECONDS:
            return plan_stream(work, limits, reason or f"all encoding takes about {in_seconds(seconds)}")
    if not os.access(place, os.W_OK) or shutil.disk_usage(place).free < STORE_BYTES:
        return plan_stream(work, limits, f"no store can be tried in {place}")
    if request.max_disk is not None and not has_room_to_try(frozen, layers):
        there = "" if stored is None else f"; the one in {stored.folder} is read with --from {STORE}{stored.folder}"
        allowed = f"--max-disk allows {in_bytes(request.max_disk)}"
        return plan_stream(work, limits, f"{allowed}, which is too little to try a store{there}")
    return plan_spans(work, measure_spans(frozen, request.heads, layers, place), limits, stored=stored)


def find_plan(frozen: FrozenTask, layers: range, run: Path, show: Show | None = None) -> FitPlan:
    """The plan that a run began with, or a new one, which is not saved yet.

    Raises:
        BertVisionError: no source fits into memory, or the saved plan is damaged.
    """
    if (run / PLAN).is_file():
        return _load_plan(run / PLAN)
    tell(show, "planning where states come from …")
    plan = plan_source(frozen, layers, run, always=False)
    if plan.chosen is None:
        raise BertVisionError(" ".join(plan.reasons) + " Or go on nevertheless: --from stream.")
    return plan


def follow_plan(plan: FitPlan, frozen: FrozenTask, run: Path, show: Show | None = None) -> FrozenTask:
    """Save a plan, make the store if it has one, and return the task with the planned source of states.

    Raises:
        BertVisionError: the store cannot be made; a resumed run continues it.
    """
    if not (run / PLAN).is_file():
        write_json(run / PLAN, {"format": 1, **asdict(plan)})
    tell(show, plan.reasons[0])
    request, source = frozen.request, plan.chosen
    if source is None or source.kind != "store":
        return replace(frozen, request=replace(request, source=STREAM))
    if source.folder is None:
        wanted = ExtractRequest(
            **request.data_fields(),
            keep=source.keep or "fp16",
            layers=source.layers,
            max_disk=request.max_disk,
            device=request.device,
            dtype=request.dtype,
            compile=request.compile,
        )
        extract_states(wanted, run / OWN_STORE, show=show)
    return frozen.reading(Path(source.folder or run / OWN_STORE))


def remove_own_store(run: Path) -> None:
    """Remove the store that a plan made in the run's folder; other stores stay."""
    shutil.rmtree(run / OWN_STORE, ignore_errors=True)


def span_work(frozen: FrozenTask, layers: range) -> SpanWork:
    """The amount of work in a fit of spans."""
    request = frozen.request
    lengths = frozen.train.windows.lengths
    train, held_out = int(lengths.sum()), len(frozen.held_out.windows.ids)
    dev = 0 if frozen.dev is None else len(frozen.dev.windows.ids)
    used = len(frozen.train.examples) + len(frozen.held_out.examples)
    per_example = (train + held_out) / used
    others = sum(len(examples) for split, examples in frozen.parts.whole.items() if split not in ("train", "dev"))
    return SpanWork(
        trained=request.epochs * train,
        scored=held_out * _held_out_passes(request) + dev,
        # exact if all training examples are used and there are only train and dev
        stored=per_example * (len(frozen.parts.whole["train"]) + others) + dev,
        layers=layers,
        depth=frozen.encoder.depth,
        width=frozen.encoder.width,
        batch=max(request.batch * int(lengths.max()), BATCH_TOKENS[frozen.encoder.device.type]),
        shard=round(SHARD_WINDOWS * float(lengths.mean())),
    )


def row_work(frozen: FrozenTask, layers: range) -> RowWork:
    """The amount of work in a fit of labels, tags or scores.

    Args:
        frozen: the task.
        layers: from the lowest to the highest layer that any head reads; rows shared by several tasks have all layers.
    """
    request = frozen.request
    parts = [part for part in (frozen.train, frozen.held_out, frozen.dev) if part is not None]
    rows = [len(part.windows) for part in parts]
    solved = [blank_head(spec.head, frozen.shape, spec.options) for spec in request.heads if _is_solved(spec, request)]
    kept = len(layers) if frozen.shared is None else frozen.shape.layers
    return RowWork(
        tokens=sum(len(windows.ids) for part in parts for windows in frozen.parts.texts(part)),
        trained=request.epochs * rows[0],
        scored=rows[1] * _held_out_passes(request) + sum(rows[2:]),
        rows=sum(rows),
        numbers=kept * frozen.shape.width,
        copied=rows[0] * max((len(head.reads) * frozen.shape.width for head in solved), default=0),
        parts=PARTS[frozen.parts.pairs],
        fraction=request.largest,
        dev=sum(rows[2:]),
        fewer_layers=frozen.shared is None and len(layers) > 1,
    )


def _held_out_passes(request: FitRequest) -> int:
    """Number of passes over held-out examples: one per validation, and one at the end for states saved before it."""
    times = len(request.fractions)
    return times + (times > 1)


def _is_solved(spec: HeadSpec, request: FitRequest) -> bool:
    """Whether a head of a fit on rows in memory is solved instead of trained."""
    return request.solve and issubclass(HEADS[spec.head].head, CONVEX)


def _finished_store(frozen: FrozenTask, layers: range) -> Source | None:
    """The store in the task's default folder, if it is finished and has the states of this task."""
    folder = default_store(frozen.request.task)
    if not folder.is_dir():
        return None
    try:
        frozen.reading(folder).check_stores(layers)
    except BertVisionError:
        return None
    content = StoreReader(folder / "train").manifest.content
    return Source(kind="store", keep=content.keep, layers=in_layers(content.layer_numbers), folder=str(folder))


def _no_store(frozen: FrozenTask) -> str | None:
    """Why no store can hold the states of this fit; None if one can."""
    if frozen.folds is not None:
        return "a store holds the states of one encoder, and a cross-fit has several"
    if frozen.task.kind != "spans":
        return "a store holds one row per text, and heads learn which tokens count"
    if frozen.encoder.device.type == "cuda" and not frozen.passes.bf16:
        return "a store on a GPU is made in bfloat16, and float32 is asked for"
    return None


def _existing(folder: Path) -> Path:
    """The folder itself, or its nearest parent that exists."""
    return next(place for place in (folder.absolute(), *folder.absolute().parents) if place.is_dir())


def _load_plan(path: Path) -> FitPlan:
    found = read_json(path)
    try:
        if not isinstance(found, dict) or found["format"] != 1:
            raise BertVisionError(f"{path} is no plan. Start anew with another --out.")
        return FitPlan(chosen=Source(**found["chosen"]), reasons=tuple(found["reasons"]))
    except (KeyError, TypeError):
        raise BertVisionError(f"{path} is no plan. Start anew with another --out.") from None
