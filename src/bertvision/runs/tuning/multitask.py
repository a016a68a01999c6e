"""multitask: tune one encoder for several tasks, with a head for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bertvision.device import choose_device
from bertvision.encoder.delta import changed_weights
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import usual_pool
from bertvision.encoder.snapshot import Snapshot, list_snapshots, save_snapshot
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError, MisfitError
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.evaluation.outputs import SpanScores
from bertvision.evaluation.score import defined
from bertvision.heads import Head, HeadShape, load_head, save_head
from bertvision.objectives import Pool
from bertvision.runs.folder import RunFolder, check_series
from bertvision.runs.parts import examples_digest, load_tasks, training_split
from bertvision.runs.tuned_split import seen_notice
from bertvision.runs.tuning.label_counts import LabelCounts
from bertvision.runs.tuning.multitask_request import DEFAULT_HEAD, Input, MultitaskRequest
from bertvision.runs.tuning.task_head import build_task_head, start_at_mean
from bertvision.runs.tuning.tuning import PreparedEncoder, TuneResult, begin_run, prepare_encoder, run_tuning
from bertvision.runs.validate import Validation
from bertvision.runs.watch import Card, JudgeSnapshot, Show, main_values, tell, telling
from bertvision.tasks.examples import Examples, Questions
from bertvision.tasks.load import TaskData
from bertvision.tasks.part import Part
from bertvision.tasks.reframe import reframe
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows, build_windows_apart
from bertvision.training.data import TuneData
from bertvision.training.mix import TaskMix
from bertvision.training.model import TaskModels, TunedModel
from bertvision.training.processes import join_processes
from bertvision.typed_json import from_json

HEADS_FOLDER = "heads"
"""The folder in a snapshot with one folder per task, for its head."""


def multitask(
    request: MultitaskRequest,
    out: str | Path,
    *,
    resume: bool = False,
    show: Show | None = None,
    judge: JudgeSnapshot | None = None,
) -> TuneResult:
    """Tune an encoder for several tasks at once.

    The metrics of the result are called `TASK.METRIC`; see `metrics_by_task`. In distributed training every process
    calls this function and gets the same result.

    Args:
        request: the settings of the run.
        out: folder of the run.
        resume: continue a run that is in the folder; a finished one returns its result again.
        show: shows progress.
        judge: called with the held-out score of every snapshot, the mean of all tasks' metrics for choosing models; it
            may end the run by raising. With it, the run does not score dev splits.

    Raises:
        BertVisionError: the request cannot work, or the run cannot continue; snapshots are kept.
    """
    started = begin_run(request, out, resume=resume, partly=len(request.tasks) > 1)
    if started.finished is not None:
        return started.finished
    loaded = load_tasks(request.tasks, request)
    prepared = prepare_encoder(request, started.accelerator)
    keeper = _build(request, loaded, prepared, started.folder.path, dev=judge is None)
    model = TaskModels(keeper.models).to(started.accelerator.device)
    notices = (*(notice for data in loaded.values() for notice in data.notices), *seen_notice(request))
    return run_tuning(started, model, keeper.counts.mix, keeper, notices=notices, show=show, judge=judge)


def score_dev(run: Path, *, show: Show | None = None) -> dict[str, float]:
    """Score the last snapshot of a run that had a `judge` on the dev splits, and add the scores to the run's files.

    Returns:
        The metrics on dev, called `TASK.METRIC`; empty if no task has a dev split.

    Raises:
        BertVisionError: the run has no snapshot, or its files cannot be read or written.
    """
    folder, snapshots = RunFolder(run), list_snapshots(run)
    if not snapshots:
        raise BertVisionError(f"{run} has no snapshot. Tune it again, with another --out.")
    end = snapshots[-1]
    request, result = from_json(MultitaskRequest, folder.request()), folder.result() or {}
    loaded = load_tasks(request.tasks, request)
    if not any("dev" in data.splits for data in loaded.values()):
        return {}
    accelerator = join_processes(cpu=choose_device(request.device).type == "cpu", tracker=None, run=run)
    prepared = prepare_encoder(replace(request, encoder=str(run), learn="none"), accelerator)
    keeper = _build(request, loaded, prepared, run, dev=True)
    for name, model in keeper.models.items():
        model.head = load_head(end.folder / HEADS_FOLDER / name)
    TaskModels(keeper.models).to(accelerator.device)
    tell(show, "scoring dev …")
    values, _ = keeper.score()
    folder.finish(result | {"metrics": {name: defined(value) for name, value in values.items()}})
    return {name: value for name, value in values.items() if f".{HELD_OUT_PREFIX}" not in name}


def _build(
    request: MultitaskRequest, loaded: Mapping[str, TaskData], prepared: PreparedEncoder, run: Path, *, dev: bool
) -> "_TasksKeeper":
    """The models of all tasks on one encoder, with their training data and validation.

    Args:
        request: the settings of the run.
        loaded: data of every task, by name.
        prepared: the encoder.
        run: folder of the run.
        dev: whether models are scored on dev, too.
    """
    tokenizer = TextTokenizer.load(base_encoder(request.encoder))
    pool = request.pool or usual_pool(request.encoder)
    tasks = {name: _prepare_task(request, data, tokenizer, prepared, pool, dev=dev) for name, data in loaded.items()}
    mix = TaskMix({name: task.data for name, task in tasks.items()}, request.turns)
    held_out = [task.validation.held_out for task in tasks.values()]
    parts = [*(task.data.windows for task in tasks.values()), *(part.windows for part in held_out if part is not None)]
    return _TasksKeeper(
        Card(
            run=run,
            request=request,
            fingerprint=prepared.fingerprint,
            pool=pool,
            examples=examples_digest(parts),
        ),
        prepared.encoder,
        {name: task.model for name, task in tasks.items()},
        {name: task.validation for name, task in tasks.items()},
        LabelCounts(run, mix, request.options),
    )


def multitask_inputs(
    request: MultitaskRequest,
    inputs: Sequence[Input],
    out: str | Path,
    *,
    resume: bool = False,
    show: Show | None = None,
) -> dict[Input, TuneResult]:
    """One run for each way in which texts reach the encoder, each in a folder of its own.

    Raises:
        BertVisionError: as `multitask`; or the folder holds runs and `resume` is not set, or other files.
    """
    check_series(Path(out), resume=resume)
    return {
        way: multitask(replace(request, input=way), Path(out) / way, resume=resume, show=telling(show, way))
        for way in inputs
    }


def metrics_by_task(metrics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Metrics called `TASK.METRIC` as a dictionary for each task."""
    by_task: dict[str, dict[str, float]] = {}
    for name, value in metrics.items():
        task, _, metric = name.partition(".")
        by_task.setdefault(task, {})[metric] = value
    return by_task


@dataclass(frozen=True, slots=True)
class _PreparedTask:
    """One of the tasks: its model, training data and validation."""

    model: TunedModel
    data: TuneData
    validation: Validation


def _prepare_task(  # noqa: PLR0913 - what a task is made of
    request: MultitaskRequest,
    loaded: TaskData,
    tokenizer: TextTokenizer,
    prepared: PreparedEncoder,
    pool: Pool,
    *,
    dev: bool,
) -> _PreparedTask:
    task, encoder = loaded.task, prepared.encoder
    train, held_out = request.split(training_split(loaded))
    windows = cut_windows(request, task, train, tokenizer)
    head = _build_head(request, encoder, task, apart=windows.second is not None)
    start_at_mean(head, task, windows.targets)
    parts = [
        None if examples is None else Part(examples=examples, windows=cut_windows(request, task, examples, tokenizer))
        for examples in (held_out, loaded.splits.get("dev") if dev else None)
    ]
    rows = None if task.kind == "spans" else pool
    return _PreparedTask(
        TunedModel(encoder, head, pool=rows, apart=windows.second is not None),
        prepared.tune_data(task, windows, pool),
        Validation(task=task, held_out=parts[0], dev=parts[1], pool=pool, passes=prepared.passes),
    )


def cut_windows(request: MultitaskRequest, task: Task, examples: Examples, tokenizer: TextTokenizer) -> Windows:
    """The token windows of a split, by the request's `input`, which makes no difference to questions about contexts.

    Raises:
        BertVisionError: as `build_windows`.
    """
    if request.input == "apart" and not isinstance(examples, Questions):
        return build_windows_apart(task, examples, tokenizer, request.windows)
    if request.input == "qa":
        examples = reframe(task, examples, request.questions)
    return build_windows(task, examples, tokenizer, request.windows)


def _build_head(request: MultitaskRequest, encoder: Encoder, task: Task, *, apart: bool) -> Head:
    name = request.heads_of.get(task.name, DEFAULT_HEAD)
    shape = HeadShape(layers=encoder.depth + 1, width=encoder.width * (1 + apart), outputs=task.outputs)
    head = build_task_head(name, shape, request.options_of.get(task.name, {}), task)
    if apart and (head.token_pool is not None or not head.token_wise):
        raise MisfitError(
            f"{task.name}: head '{name}' looks at several tokens, and of pairs apart there is one row each. "
            "Use --input pair or qa, or another head."
        )
    return head


@dataclass(frozen=True, slots=True)
class _TasksKeeper:
    """Saves and scores an encoder with a head for each task."""

    card: Card
    encoder: Encoder
    models: Mapping[str, TunedModel]
    validations: Mapping[str, Validation]
    counts: LabelCounts

    def save(self, snapshot: Snapshot) -> None:
        save_snapshot(snapshot, changed_weights(self.encoder), self._save_heads)

    def _save_heads(self, folder: Path) -> None:
        for name, model in self.models.items():
            (folder / HEADS_FOLDER / name).mkdir(parents=True)
            save_head(model.head, folder / HEADS_FOLDER / name)

    def score(self) -> tuple[dict[str, float], float | None]:
        values: dict[str, float] = {}
        mains: list[float | None] = []
        for name, validation in self.validations.items():
            model = self.models[name]
            held_out, dev = (validation.outputs(model, part) for part in (validation.held_out, validation.dev))
            metrics, main = validation.score_outputs(held_out, dev)
            values |= {f"{name}.{metric}": value for metric, value in metrics.items()}
            percent = 100.0 if validation.task.kind == "spans" else 1.0  # scores of questions are in percent
            mains.append(None if main is None else main / percent)
            if dev is not None and not isinstance(dev, SpanScores):
                self.counts.keep(validation, dev)
        self.counts.write()
        known = [main for main in mains if main is not None]
        return values, float(np.mean(known)) if len(known) == len(mains) else None

    def main_values(self, values: Mapping[str, float]) -> dict[str, float]:
        by_task = metrics_by_task(values)
        return {
            f"{name}.{metric}": value
            for name, validation in self.validations.items()
            for metric, value in main_values(validation.task, by_task.get(name, {})).items()
        }
