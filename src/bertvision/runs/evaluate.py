"""evaluate: a finished run → honest scores of its heads and of its encoder's own output, and their answers."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertvision.heads import count_parameters, load_head
from bertvision.provenance import provenance
from bertvision.runs.evaluation_files import write_folder
from bertvision.runs.evaluation_record import EvaluatedRow, EvaluationRecord
from bertvision.runs.judge import Judge, ScoresAt, Verdict, compare_verdicts
from bertvision.runs.kept_outputs import ModelOutputs, load_outputs
from bertvision.runs.parts import Device
from bertvision.runs.read_subjects import read_subjects
from bertvision.runs.subject import OWN_OUTPUT, Subject, load_subject
from bertvision.runs.watch import Show

RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """What came out of an evaluation.

    Attributes:
        folder: where its files are.
        record: what it found.
        notices: what the user should know.
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

    Thresholds are fitted on the training examples that the run held out. Outputs are kept: another evaluation of the
    same heads on the same windows runs no encoder.

    Args:
        run: `RUN` of a fit, `RUN` or `RUN@0.3` of a tuned run.
        data: where the split is; None takes the run's own data.
        split: which split.
        resamples: draws for intervals and tests.
        seed: of the draws.
        device: where to compute.
        show: is told what takes long now.

    Raises:
        BertVisionError: there is no such run or split, or the run is not finished, or something cannot be written.
    """
    begin = time.perf_counter()
    subject = load_subject(run, data=data, split=split)
    ((weights, outputs),) = outputs_of([subject], device=device, show=show)
    judge = Judge(subject.parts.task, subject.part, subject.held_out)
    _tell(show, f"scoring {len(outputs)} models …")
    verdicts = {name: judge.judge(one.split, one.held_out) for name, one in outputs.items()}
    own = OWN_OUTPUT if OWN_OUTPUT in verdicts else None
    scores = compare_verdicts(verdicts, own, resamples=resamples, seed=seed)
    request = subject.run.request
    record = EvaluationRecord(
        run=subject.run.name,
        task=request.task,
        kind=subject.parts.task.kind,
        encoder=request.encoder,
        data=subject.data,
        split=split,
        examples=len(subject.part.examples),
        held_out_examples=0 if subject.held_out is None else len(subject.held_out.examples),
        resamples=resamples,
        seed=seed,
        own=own,
        rows=sorted((_row(subject, name, verdicts[name], scores[name]) for name in outputs), key=_order),
        fingerprints=subject.fingerprints(weights),
        command=_command(subject, data, resamples, seed),
        seconds=round(time.perf_counter() - begin, 3),
        provenance=provenance(),
    )
    write_folder(subject.folder, judge, verdicts, outputs, record.save)
    return EvaluationResult(folder=subject.folder, record=record, notices=subject.notices)


def outputs_of(
    subjects: Sequence[Subject], *, device: Device, show: Show | None
) -> list[tuple[str, dict[str, ModelOutputs]]]:
    """Of every subject the fingerprint of its encoder and its outputs: those that are kept, others in one pass.

    Raises:
        BertVisionError: an encoder or head cannot be had, or is another than the run's.
    """
    found: dict[int, tuple[str, dict[str, ModelOutputs]]] = {}
    for number, subject in enumerate(subjects):
        record = subject.kept()
        if record is not None:
            kept = {name: load_outputs(subject.folder / name) for name in subject.heads}
            found[number] = record.fingerprints.weights, kept
    new = [number for number in range(len(subjects)) if number not in found]
    read = read_subjects([subjects[number] for number in new], device=device, tell=partial(_tell, show))
    found |= dict(zip(new, read, strict=True))
    return [found[number] for number in range(len(subjects))]


def _tell(show: Show | None, doing: str) -> None:
    if show is not None:
        show(0, 1, {}, doing=doing)


def _row(subject: Subject, name: str, verdict: Verdict, scores: dict[str, ScoresAt]) -> EvaluatedRow:
    known: dict[str, Any]
    if name == OWN_OUTPUT:
        head = load_head(subject.head_folder(name))
        known = {"head": head.name, "options": head.options, "parameters": count_parameters(head), "depth": head.depth}
        known["seed"] = None
    else:
        row = subject.run.heads[name]
        known = {field: row[field] for field in ("head", "options", "seed", "parameters", "depth")}
    held_out = verdict.held_out
    held_out = None if held_out is None or not math.isfinite(held_out) else held_out
    return EvaluatedRow(name=name, own=name == OWN_OUTPUT, held_out=held_out, scores=scores, **known)


def _order(row: EvaluatedRow) -> tuple[float, int, str]:
    """Best first by held-out examples; of equal ones the smallest, never the better on the split."""
    return -row.held_out if row.held_out is not None else math.inf, row.parameters, row.name


def _command(subject: Subject, data: str | Path | None, resamples: int, seed: int) -> str:
    words = ["bertvision", "evaluate", subject.run.name, "--split", subject.split]
    words += [] if data is None else ["--data", str(data)]
    return " ".join([*words, "--bootstrap", str(resamples), "--seed", str(seed)])
