"""evaluate: a finished run → scores and answers of its heads and of its encoder's own output on a split."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertvision.amounts import in_words
from bertvision.device import Device
from bertvision.evaluation.bootstrap import check_resamples
from bertvision.heads import count_parameters, load_head
from bertvision.provenance import provenance
from bertvision.runs.judging.evaluation_files import write_folder
from bertvision.runs.judging.evaluation_record import EvaluatedRow, EvaluationRecord
from bertvision.runs.judging.judge import Judge, ScoresAt, Verdict, compare_verdicts
from bertvision.runs.judging.kept_outputs import RunOutputs, load_outputs
from bertvision.runs.judging.read_subjects import read_subjects
from bertvision.runs.judging.subject import OWN_OUTPUT, Subject, load_subject
from bertvision.runs.watch import Show, tell

RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The result of `evaluate`.

    Attributes:
        folder: folder of its files.
        record: the scores.
        notices: messages for the user.
    """

    folder: Path
    record: EvaluationRecord
    notices: tuple[str, ...]


def evaluate(  # noqa: PLR0913 - what it depends on, by keyword
    run: str | Path,
    *,
    data: str | Path | None = None,
    split: str = "dev",
    resamples: int = RESAMPLES,
    seed: int = 0,
    device: Device = "auto",
    show: Show | None = None,
) -> EvaluationResult:
    """Score every head of a run, and its encoder's own output, in one pass over a split.

    No-answer thresholds are fitted on the training examples that the run held out. Outputs are saved, so that another
    evaluation of the same heads on the same windows runs no encoder.

    Args:
        run: `RUN` of a fit, `RUN` or `RUN@0.3` of a tuned run.
        data: where the split's files are; None takes the run's own data.
        split: name of the split.
        resamples: bootstrap resamples for intervals and tests.
        seed: seed of the resampling.
        device: `auto`, `cpu` or `cuda`.
        show: shows progress.

    Raises:
        BertVisionError: there is no such run or split, or the run is not finished, or a file cannot be written.
    """
    check_resamples(resamples, seed)
    begin = time.perf_counter()
    subject = load_subject(run, data=data, split=split)
    (outputs,) = outputs_of([subject], device=device, show=show)
    tell(show, f"scoring {in_words(len(outputs.models), 'model')} …")
    record, _ = judge_subject(subject, outputs, resamples=resamples, seed=seed, begin=begin)
    return EvaluationResult(folder=subject.folder, record=record, notices=subject.notices)


def judge_subject(
    subject: Subject, outputs: RunOutputs, *, resamples: int, seed: int, begin: float
) -> tuple[EvaluationRecord, dict[str, Verdict]]:
    """Score the outputs of a run's models, and write the evaluation's folder.

    Args:
        subject: the run and its split.
        outputs: outputs of its models.
        resamples: bootstrap resamples for intervals and tests.
        seed: seed of the resampling.
        begin: when the evaluation began, by `time.perf_counter`.

    Returns:
        The record, and the verdict on every model by name.

    Raises:
        BertVisionError: the folder cannot be written.
    """
    judge = Judge(subject.parts.task, subject.part, subject.held_out)
    verdicts = {name: judge.judge(model.split, model.held_out) for name, model in outputs.models.items()}
    own = OWN_OUTPUT if OWN_OUTPUT in verdicts else None
    scores = compare_verdicts(verdicts, own, resamples=resamples, seed=seed)
    request = subject.run.request
    record = EvaluationRecord(
        run=subject.run.name,
        task=request.task,
        kind=subject.parts.task.kind,
        encoder=request.encoder,
        data=subject.data,
        split=subject.split,
        examples=len(subject.part.examples),
        held_out_examples=subject.held_out_examples,
        resamples=resamples,
        seed=seed,
        own=own,
        rows=sorted((evaluated_row(subject, name, verdicts[name], scores[name]) for name in verdicts), key=best_first),
        fingerprints=subject.fingerprints(outputs.weights),
        command=subject.command("evaluate", "--bootstrap", str(resamples), "--seed", str(seed)),
        seconds=round(time.perf_counter() - begin, 3),
        provenance=provenance(),
    )
    write_folder(subject.folder, judge, verdicts, outputs.models, record.save)
    return record, verdicts


def outputs_of(subjects: Sequence[Subject], *, device: Device, show: Show | None) -> list[RunOutputs]:
    """The outputs of every subject's models: saved ones are loaded, others are computed by `read_subjects`.

    Raises:
        BertVisionError: an encoder or head cannot be loaded, or the encoder is not the run's.
    """
    kept = [load_kept(subject) for subject in subjects]
    new = [subject for subject, outputs in zip(subjects, kept, strict=True) if outputs is None]
    computed = iter(read_subjects(new, device=device, tell=partial(tell, show)))
    return [next(computed) if outputs is None else outputs for outputs in kept]


def load_kept(subject: Subject) -> RunOutputs | None:
    """The outputs that an earlier evaluation of the same heads on the same windows saved; None if there is none.

    Raises:
        BertVisionError: their files are damaged.
    """
    record = subject.kept()
    if record is None:
        return None
    models = {name: load_outputs(subject.folder / name) for name in subject.heads}
    return RunOutputs(record.fingerprints.weights, models)


def evaluated_row(
    subject: Subject, name: str, verdict: Verdict, scores: dict[str, ScoresAt], *, label: str | None = None
) -> EvaluatedRow:
    """The row of a head, or of the own output, in an evaluation or ensemble.

    Args:
        subject: the run.
        name: name of the model in the run.
        verdict: its answers and scores.
        scores: its scores with intervals, by the name of the threshold.
        label: name of the row; None takes `name`.
    """
    known: dict[str, Any]
    if name == OWN_OUTPUT:
        head = load_head(subject.head_folder(name))
        known = {"head": head.name, "options": head.options, "parameters": count_parameters(head), "depth": head.depth}
        known["seed"] = None
    else:
        row = subject.run.heads[name]
        known = {field: row[field] for field in ("head", "options", "seed", "parameters", "depth")}
    return EvaluatedRow(
        name=label or name,
        own=name == OWN_OUTPUT,
        held_out=verdict.held_out,
        scores=scores,
        loss=verdict.loss,
        **known,
    )


def best_first(row: EvaluatedRow) -> tuple[float, int, str]:
    """Sort key: best held-out score first, of equal ones the smallest model; the split's scores must not choose."""
    return -row.held_out if row.held_out is not None else math.inf, row.parameters, row.name
