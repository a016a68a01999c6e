"""What is told of every model of a run: scores at each threshold, the outcome of every example, and its cost."""

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
"""Bytes of a stored number."""

Model = dict[str, Any]
"""What is told of a model, as JSON can hold it."""


@dataclass(frozen=True, slots=True)
class JudgedModels:
    """The models of a run.

    Attributes:
        subject: what was judged, and on what.
        models: models by name; `inference_seconds` are those of one example.
        seconds: seconds of answers.
    """

    subject: Subject
    models: dict[str, Model]
    seconds: InferenceSeconds


def judge_models(subject: Subject, environment: BenchEnvironment) -> JudgedModels:
    """Score every model of a run, unless that was done before, and time its answers over few examples.

    Raises:
        BertVisionError: an encoder or head cannot be had.
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
            **told(subject.parts.task, row),
            "head": row.head,
            "head_parameters": row.parameters,
            "depth": row.depth,
            "inference_seconds": None if spent is None else round(spent / seconds.examples, 7),
            "outcomes": outcomes(subject, subject.folder / row.name),
        }
    return JudgedModels(subject, models, seconds)


def told(task: Task, row: EvaluatedRow) -> Model:
    """What a row of an evaluation says, without intervals."""
    names = SHOWN if task.kind == "spans" else task.metrics
    scores = {
        at: {name: rounded(found.values[name].value) for name in names if name in found.values}
        for at, found in row.scores.items()
    }
    thresholds = {at: rounded(found.threshold) for at, found in row.scores.items() if found.threshold is not None}
    known = {"held_out": rounded(row.held_out), "loss": rounded(row.loss)}
    return {**known, "scores": scores, "thresholds": thresholds}


def told_ensemble(subject: Subject, joined: EnsembleResult) -> Model:
    """What is told of an ensemble, whatever it cost."""
    row = joined.record.ensemble
    return {
        **told(subject.parts.task, row),
        "head": None,
        "head_parameters": row.parameters,
        "depth": row.depth,
        "members": len(joined.record.used),
        "outcomes": outcomes(subject, joined.folder / ENSEMBLE),
    }


def outcomes(subject: Subject, folder: Path) -> str | None:
    """What a paired test needs to know of every example of a split, from the answers in a folder; None for tags.

    Of questions F1 at the fitted threshold where there is one; of labels and scores what was said, to be held against
    `pack_golds`.
    """
    examples, task = subject.part.examples, subject.parts.task
    if task.kind == "spans":
        questions = as_questions(examples)
        said = read_json(folder / (ANSWERS if (folder / ANSWERS).is_file() else PREDICTIONS))
        return pack_outcomes(score_questions(questions.golds(), said, version=1 if task.answerable_only else 2).f1)
    if task.kind == "tags":
        return None
    said = read_json(folder / PREDICTIONS)
    numbers = {label: number for number, label in enumerate(task.labels)}
    return pack_outcomes([numbers[said[key]] if numbers else said[key] for key in examples.ids])


def pack_golds(task: Task, examples: Examples) -> str | None:
    """Right class numbers or scores; None where outcomes are scores of their own, or are not kept."""
    return pack_outcomes(gold_targets(examples)) if task.kind in ("labels", "scores") else None


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def rounded(value: float | None) -> float | None:
    """A number as records keep it; None where it is not defined."""
    return None if value is None or not math.isfinite(value) else round(value, 4)
