"""What is told of every model of a run: scores at each threshold, the outcome of every example, and its cost."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertvision.bench.outcomes import pack_outcomes
from bertvision.bench.place import Place
from bertvision.evaluation.bootstrap import LEAST_RESAMPLES
from bertvision.evaluation.squad_metric import score_questions
from bertvision.runs.evaluate import judge_subject, tell
from bertvision.runs.evaluation_files import ANSWERS, PREDICTIONS
from bertvision.runs.evaluation_record import EvaluatedRow
from bertvision.runs.measure_inference import InferenceSeconds, measure_inference
from bertvision.runs.read_subjects import SharedPass
from bertvision.runs.subject import Subject
from bertvision.runs.validate import answerable_only
from bertvision.tasks.examples import Questions, gold_targets
from bertvision.tasks.files import read_json
from bertvision.tasks.task import Task

SHOWN = ("f1", "exact", "exact_match", "HasAns_f1", "NoAns_f1")
"""Of the metrics of questions, those that are kept."""

Model = dict[str, Any]
"""What is told of a model, as JSON can hold it."""


@dataclass(frozen=True, slots=True)
class JudgedModels:
    """The models of a run.

    Attributes:
        subject: what was judged, and on what.
        models: by name; `inference_seconds` are those of one example.
        seconds: of answers.
    """

    subject: Subject
    models: dict[str, Model]
    seconds: InferenceSeconds


def judge_models(subject: Subject, place: Place) -> JudgedModels:
    """Score every model of a run, and time its answers: one pass over the split, and some over few examples.

    Raises:
        BertVisionError: an encoder or head cannot be had.
    """
    begin = time.perf_counter()
    tell(place.show, f"reading {subject.run.name} …")
    shared = SharedPass(subject, place.device)
    shared.check(subject)
    read = shared.read({(0, name): subject for name in subject.heads}, partial(tell, place.show))
    outputs = {name: read[0, name] for name in subject.heads}
    tell(place.show, f"scoring {len(outputs)} models …")
    record = judge_subject(subject, shared.weights, outputs, resamples=LEAST_RESAMPLES, seed=0, begin=begin)
    tell(place.show, f"timing {len(outputs)} models …")
    readers = {name: head for name in outputs if (head := shared.load(subject, name)) is not None}
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
        at: {name: _rounded(found.values[name].value) for name in names if name in found.values}
        for at, found in row.scores.items()
    }
    thresholds = {at: _rounded(found.threshold) for at, found in row.scores.items() if found.threshold is not None}
    return {"held_out": _rounded(row.held_out), "scores": scores, "thresholds": thresholds}


def outcomes(subject: Subject, folder: Path) -> str | None:
    """What every example of a split scored with the answers in a folder; None where that is no number from 0 to 1.

    Of questions F1 at the fitted threshold where there is one; of labels whether they are right.
    """
    examples, task = subject.part.examples, subject.parts.task
    if task.kind == "spans":
        if not isinstance(examples, Questions):
            raise TypeError("spans come from questions")
        said = read_json(folder / (ANSWERS if (folder / ANSWERS).is_file() else PREDICTIONS))
        return pack_outcomes(score_questions(examples.golds(), said, version=1 if answerable_only(task) else 2).f1)
    if task.kind != "labels":
        return None
    said = read_json(folder / PREDICTIONS)
    golds = [task.labels[int(number)] for number in gold_targets(examples)]
    return pack_outcomes([said[key] == gold for key, gold in zip(examples.ids, golds, strict=True)])


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
