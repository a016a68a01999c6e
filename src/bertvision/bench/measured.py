"""The result of every model of a run: scores at each threshold, the outcome of every example, and costs."""

import math
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.outcomes import pack_outcomes
from bertvision.evaluation.bootstrap import LEAST_RESAMPLES
from bertvision.evaluation.squad_metric import SHOWN, score_questions
from bertvision.runs.judging.ensemble import ENSEMBLE, EnsembleResult
from bertvision.runs.judging.evaluate import judge_subject
from bertvision.runs.judging.evaluation_files import ANSWERS, PREDICTIONS
from bertvision.runs.judging.evaluation_record import EvaluatedRow
from bertvision.runs.judging.measure_inference import InferenceSeconds, measure_inference
from bertvision.runs.judging.read_subjects import SharedPass
from bertvision.runs.judging.subject import Subject
from bertvision.runs.watch import tell
from bertvision.tasks.examples import Examples, as_questions, gold_targets
from bertvision.tasks.files import read_json
from bertvision.tasks.task import Task

FLOAT32 = 4
"""Bytes of a number in float32."""

Model = dict[str, Any]
"""The result of a model, which can be written as JSON."""


@dataclass(frozen=True, slots=True)
class JudgedModels:
    """The results of a run's models.

    Attributes:
        subject: the run's models, and the split they were scored on.
        models: results by model; `inference_seconds` are per example.
        seconds: seconds of inference, by depth of the encoder and by head.
    """

    subject: Subject
    models: dict[str, Model]
    seconds: InferenceSeconds


def judge_models(subject: Subject, environment: BenchEnvironment) -> JudgedModels:
    """Score every model of a run, unless an evaluation of it is kept, and time inference on a few examples.

    Raises:
        BertVisionError: an encoder or head cannot be loaded.
    """
    begin = time.perf_counter()
    tell(environment.show, f"reading {subject.run.name} …")
    shared = SharedPass(subject, environment.device)
    shared.check(subject)
    record = subject.kept()
    if record is None:
        (outputs,) = shared.read([subject], partial(tell, environment.show))
        tell(environment.show, f"scoring {len(outputs.models)} models …")
        record, _ = judge_subject(subject, outputs, resamples=LEAST_RESAMPLES, seed=0, begin=begin)
    tell(environment.show, f"timing {len(subject.heads)} models …")
    readers = {name: head for name in subject.heads if (head := shared.load(subject, name)) is not None}
    seconds = measure_inference(shared, subject, readers)
    models = {}
    for row in sorted(record.rows, key=lambda one: one.name):
        spent = seconds.total(row.name, row.depth) if row.name in readers else None
        models[row.name] = {
            **row_scores(subject.parts.task, row),
            "head": row.head,
            "head_parameters": row.parameters,
            "depth": row.depth,
            "inference_seconds": None if spent is None else round(spent / seconds.examples, 7),
            "outcomes": outcomes(subject, subject.folder / row.name),
        }
    return JudgedModels(subject, models, seconds)


def row_scores(task: Task, row: EvaluatedRow) -> Model:
    """The scores and thresholds of a model in an evaluation, without confidence intervals."""
    names = SHOWN if task.kind == "spans" else task.metrics
    scores = {
        at: {name: rounded(scores_at.values[name].value) for name in names if name in scores_at.values}
        for at, scores_at in row.scores.items()
    }
    thresholds = {at: rounded(one.threshold) for at, one in row.scores.items() if one.threshold is not None}
    return {
        "held_out": rounded(row.held_out),
        "loss": rounded(row.loss),
        "scores": scores,
        "thresholds": thresholds,
    }


def ensemble_scores(subject: Subject, joined: EnsembleResult) -> Model:
    """The result of an ensemble, without its costs."""
    row = joined.record.ensemble
    return {
        **row_scores(subject.parts.task, row),
        "head": None,
        "head_parameters": row.parameters,
        "depth": row.depth,
        "members": len(joined.record.used),
        "outcomes": outcomes(subject, joined.folder / ENSEMBLE),
    }


def outcomes(subject: Subject, folder: Path) -> str | None:
    """The outcomes of all examples of a split for paired tests, from a model's evaluation folder; None for tags.

    For questions these are F1 scores, at the fitted threshold if there is one; for labels and scores the predictions,
    to be compared with `pack_golds`.
    """
    examples, task = subject.part.examples, subject.parts.task
    if task.kind == "spans":
        questions = as_questions(examples)
        answers = read_json(folder / (ANSWERS if (folder / ANSWERS).is_file() else PREDICTIONS))
        return pack_outcomes(score_questions(questions.golds(), answers, version=1 if task.answerable_only else 2).f1)
    if task.kind == "tags":
        return None
    predictions = read_json(folder / PREDICTIONS)
    numbers = {label: number for number, label in enumerate(task.labels)}
    return pack_outcomes([numbers[predictions[key]] if numbers else predictions[key] for key in examples.ids])


def pack_golds(task: Task, examples: Examples) -> str | None:
    """The gold class numbers or scores of all examples; None for questions, whose outcomes are scores, and for tags."""
    return pack_outcomes(gold_targets(examples)) if task.kind in ("labels", "scores") else None


def size_of(folder: Path) -> int:
    """Bytes of the files directly in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def rounded(value: float | None) -> float | None:
    """A number with four decimals, as in records; None if it is None or not finite."""
    return None if value is None or not math.isfinite(value) else round(value, 4)
