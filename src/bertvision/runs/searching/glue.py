"""run_glue: tune briefly, fit heads and evaluate on every GLUE task whose data are there; one table and one average."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from bertvision.atomic import write_json
from bertvision.encoder.learn import parse_learn
from bertvision.errors import BertVisionError, DataError
from bertvision.evaluation.bootstrap import check_resamples
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.provenance import provenance
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.fit_request import STREAM, FitRequest
from bertvision.runs.fitting.head_specs import parse_heads
from bertvision.runs.folder import CONFIG, RunFolder
from bertvision.runs.judging.evaluate import RESAMPLES, evaluate
from bertvision.runs.judging.evaluation_record import EvaluatedRow, EvaluationRecord
from bertvision.runs.judging.judge import PLAIN
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuning.tune import tune
from bertvision.runs.watch import Show, telling
from bertvision.tasks.files import read_json
from bertvision.tasks.glue import GLUE_TASKS
from bertvision.tasks.sources import find_local, is_there
from bertvision.tasks.task import Task
from bertvision.tasks.windows import WindowOptions
from bertvision.training.options import TuneOptions
from bertvision.training.trainee import HeadSpec

FORMAT = 1
GLUE_FILE, TASK_FILE = "glue.json", "task.json"
NOTHING = "none"
"""The value of `learn` that tunes no encoder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueRequest:
    """The settings of the runs of all GLUE tasks.

    Attributes:
        data: a folder with the tasks' folders in the official layout.
        encoder: name or folder of the encoder; see `load_encoder`.
        windows: length and stride of token windows.
        learn: which of the encoder's parameters are tuned (see `parse_learn`); `none` fits heads on the encoder as it
            is.
        tuning: training options of the encoder; its seed is that of the heads, too.
        heads: 'all', names between commas, or a TOML file.
        head_epochs: epochs of the fit of heads.
        fraction: share of the training examples to use.
        held_out: share of the used examples to hold out; the best head is chosen on them.
        skip_bad: leave out rows that cannot be read.
        resamples: bootstrap resamples for intervals and tests.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto` computes in bfloat16 on a GPU, and in float32 on a CPU.
    """

    data: str
    encoder: str = BUILTIN_ENCODER
    windows: WindowOptions = field(default_factory=WindowOptions)
    learn: str = "lora:16"
    tuning: TuneOptions = field(default_factory=lambda: TuneOptions(epochs=0.3))
    heads: str = "last_layer,layer_concat,layer_mix,adapter_pool"
    head_epochs: float = 3.0
    fraction: float = 1.0
    held_out: float = 0.1
    skip_bad: bool = False
    resamples: int = RESAMPLES
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"

    def fields(self, task: str) -> dict[str, Any]:
        """The fields that the requests to tune and to fit a task share."""
        names = ("data", "encoder", "windows", "skip_bad", "held_out", "device", "dtype")
        return {"task": task, **{name: getattr(self, name) for name in names}}

    def tune(self, task: str) -> TuneRequest:
        """The request to tune the encoder for a task."""
        return TuneRequest(**self.fields(task), learn=self.learn, options=self.tuning, fraction=self.fraction)

    def fit(self, task: Task, encoder: str) -> FitRequest:
        """The request to fit heads for a task on an encoder."""
        base = HeadSpec(head="last_layer", seed=self.tuning.seed, fraction=self.fraction)
        return FitRequest(
            **(self.fields(task.name) | {"encoder": encoder}),
            heads=tuple(replace(spec, fraction=self.fraction) for spec in parse_heads(self.heads, task.kind, base)),
            epochs=self.head_epochs,
            seed=self.tuning.seed,
            source=STREAM,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GlueResult:
    """The result of `run_glue`.

    Attributes:
        out: folder of the runs, with one folder per task.
        record: the content of its `glue.json`.
        notices: messages for the user.
    """

    out: Path
    record: dict[str, Any]
    notices: tuple[str, ...]


def run_glue(request: GlueRequest, out: str | Path, *, show: Show | None = None) -> GlueResult:
    """Tune, fit heads and evaluate, task after task; the same call again continues after the last finished task.

    Args:
        request: the settings of all runs.
        out: folder of the runs.
        show: shows the progress of each run.

    Raises:
        BertVisionError: there is no task with data, the folder is that of another request, or a run fails; finished
            tasks are kept.
    """
    check_resamples(request.resamples)
    parse_learn(request.learn)
    folder = RunFolder(Path(out))
    folder.check(asdict(request), resume=True)
    there, missing = _find(request.data)
    if not there:
        listed = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
        raise BertVisionError(f"{request.data} holds no GLUE task with a train and a dev file. {listed}")
    for task in there:  # all requests are checked before the first run
        request.tune(task.name).check()
        request.fit(task, request.encoder).check()
    folder.begin(asdict(request), "")
    rows, notices = [], []
    for task in there:
        path = folder.path / task.name
        if not (path / TASK_FILE).is_file():
            row, task_notices = _run(request, task, path, telling(show, task.name))
            write_json(path / TASK_FILE, row)
            notices += task_notices
        rows.append(read_json(path / TASK_FILE))
        write_json(folder.path / GLUE_FILE, _record(request, rows, missing))
    record: dict[str, Any] = read_json(folder.path / GLUE_FILE)
    return GlueResult(out=folder.path, record=record, notices=tuple(dict.fromkeys(notices)))


def _find(data: str) -> tuple[list[Task], dict[str, str]]:
    """The tasks whose train and dev files are there, and the reason why each of the others is missing.

    Raises:
        DataError: there is no such folder.
    """
    if not is_there(Path(data)):
        raise DataError(f"{data} does not exist. A folder with CoLA, SST-2, MRPC and so on is expected.")
    there, missing = [], {}
    for task in GLUE_TASKS:
        try:
            files = find_local(task, Path(data))
        except DataError:
            missing[task.name] = "no file is there"
            continue
        lacking = [split for split in ("train", "dev") if split not in files.paths]
        if lacking:
            missing[task.name] = f"no {' and no '.join(lacking)} file is there"
        else:
            there.append(task)
    return there, missing


def _run(request: GlueRequest, task: Task, path: Path, show: Show | None) -> tuple[dict[str, Any], list[str]]:
    """Tune, fit and evaluate for a task; returns its row in the table, and messages for the user."""
    encoder = request.encoder
    notices: list[str] = []
    if request.learn != NOTHING:
        tuned = path / "tuned"
        notices += tune(request.tune(task.name), tuned, resume=(tuned / CONFIG).is_file(), show=show).notices
        encoder = str(tuned)
    heads = path / "heads"
    fitted = fit_heads(request.fit(task, encoder), heads, resume=(heads / CONFIG).is_file(), show=show)
    notices += fitted.notices
    splits = [split for split in task.files if split != "train"]
    records = {
        split: evaluate(heads, split=split, resamples=request.resamples, device=request.device, show=show).record
        for split in splits
        if split == "dev" or _has(request.data, task, split)
    }
    best = next(row for row in records["dev"].rows if not row.own)
    return {
        "task": task.name,
        "examples": {split: record.examples for split, record in records.items()},
        "metrics": list(task.metrics),
        "best": _scores(records, best, task.metrics),
        "own": _scores(records, records["dev"].row(records["dev"].own), task.metrics) if records["dev"].own else None,
        "heads": {row.name: _mean(_scores(records, row, task.metrics)) for row in records["dev"].rows if not row.own},
        "encoder": encoder,
        "run": str(heads),
    }, notices


def _has(data: str, task: Task, split: str) -> bool:
    return split in find_local(task, Path(data)).paths


def _scores(records: Mapping[str, EvaluationRecord], row: EvaluatedRow, metrics: Sequence[str]) -> dict[str, Any]:
    """A model's official metrics on each split, in percent, and their mean; one that is not defined counts as 0."""
    values = {}
    for split, record in records.items():
        estimates = record.row(row.name).scores[PLAIN].values
        for name in metrics:
            value = estimates[name].value
            values[name if split == "dev" else f"{name}_{split}"] = 0.0 if value is None else 100.0 * value
    return {"name": row.name, "held_out": row.held_out, "values": values, "mean": statistics.fmean(values.values())}


def _mean(scores: Mapping[str, Any]) -> float:
    return float(scores["mean"])


def _record(request: GlueRequest, rows: list[dict[str, Any]], missing: Mapping[str, str]) -> dict[str, Any]:
    owns = [row["own"]["mean"] for row in rows if row["own"] is not None]
    return {
        "format": FORMAT,
        "record": "glue",
        "encoder": request.encoder,
        "learn": request.learn,
        "request": asdict(request),
        "tasks": rows,
        "missing": dict(missing),
        "average": statistics.fmean(row["best"]["mean"] for row in rows),
        "own_average": statistics.fmean(owns) if len(owns) == len(rows) else None,
        "provenance": provenance(),
    }
