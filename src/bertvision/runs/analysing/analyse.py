"""analyse: a finished run → its models' errors, layer weights, calibration, learning curves and costs on a split."""

import time
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from bertvision.amounts import in_words
from bertvision.atomic import write_text
from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.heads import load_head
from bertvision.provenance import provenance
from bertvision.runs.analysing.analyse_curves import (
    data_curves,
    learning_curves,
    logged_metric,
    snapshot_curve,
    tuned_parameters,
)
from bertvision.runs.analysing.analyse_layers import attended_layers, learned_layers, seed_groups
from bertvision.runs.analysing.analysis_record import AnalysisRecord, EncoderCost
from bertvision.runs.analysing.depth_sweep import depth_sweeps
from bertvision.runs.analysing.judged_run import JudgedRun
from bertvision.runs.judging.evaluate import RESAMPLES, judge_subject, load_kept
from bertvision.runs.judging.judge import Verdict
from bertvision.runs.judging.kept_outputs import ModelOutputs
from bertvision.runs.judging.measure_inference import InferenceSeconds, measure_inference
from bertvision.runs.judging.read_subjects import SharedPass
from bertvision.runs.judging.subject import OWN_OUTPUT, Subject, load_subject
from bertvision.runs.watch import Show, tell


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisResult:
    """The result of `analyse`.

    Attributes:
        folder: folder of its files.
        record: the analysis.
        notices: messages for the user.
    """

    folder: Path
    record: AnalysisRecord
    notices: tuple[str, ...]


def analyse(  # noqa: PLR0913 - what it depends on, by keyword
    run: str | Path,
    *,
    data: str | Path | None = None,
    split: str = "dev",
    question: str | None = None,
    device: Device = "auto",
    show: Show | None = None,
) -> AnalysisResult:
    """Analyse the heads of a run, and its encoder's own output, on a split.

    A run without an evaluation on the split is evaluated first. The attention of heads over layers takes one more pass
    over the split, for all such heads together.

    Args:
        run: `RUN` of a fit, `RUN` or `RUN@0.3` of a tuned run.
        data: where the split's files are; None takes the run's own data.
        split: name of the split.
        question: id of an example whose attention over layers is reported separately, too; None for none.
        device: `auto`, `cpu` or `cuda`.
        show: shows progress.

    Raises:
        BertVisionError: there is no such run, split or example, or the run is not finished, or a file cannot be
            written.
    """
    begin = time.perf_counter()
    subject = load_subject(run, data=data, split=split)
    if question is not None:
        _check_question(subject, question)
    tell(show, f"reading {subject.run.request.encoder} …")
    shared = SharedPass(subject, device)
    shared.check(subject)
    outputs, verdicts = _outputs(subject, shared, show, begin)
    tell(show, f"analysing {in_words(len(outputs), 'model')} …")
    judged = JudgedRun(subject, outputs, verdicts)
    # without an own output that needs a pass of its own: it is not timed, and its attention is not computed
    on_shared_pass = {name: head for name in outputs if (head := shared.load(subject, name)) is not None}
    heads = {name: on_shared_pass.get(name) or load_head(subject.head_folder(name)) for name in outputs}
    if subject.run.own is not None and subject.run.own.pooled:
        del heads[OWN_OUTPUT]  # its layer 0 is the pooled vector, so its layer numbers cannot be compared
    groups = seed_groups(subject, heads)
    tell(show, f"timing {in_words(len(on_shared_pass), 'model')} …")
    seconds = measure_inference(shared, subject, on_shared_pass)
    tell(show, "looking at layers …")
    attention = attended_layers(shared, subject, groups, on_shared_pass, question=question)
    errors = judged.errors()
    logged = logged_metric(subject.run, subject.parts.task)
    record = AnalysisRecord(
        run=subject.run.name,
        task=subject.run.request.task,
        kind=subject.parts.task.kind,
        encoder=subject.run.request.encoder,
        data=subject.data,
        split=subject.split,
        examples=len(subject.part.examples),
        held_out_examples=subject.held_out_examples,
        question=question,
        metric=judged.metric,
        at=judged.at,
        logged_metric=logged,
        first=judged.first,
        second=judged.second,
        errors=None if errors is None else errors[0],
        models=judged.models(),
        context_lengths=judged.contexts(),
        layer_weights=learned_layers(groups, heads),
        attention=attention,
        learning=learning_curves(subject.run, logged),
        less_data=data_curves(judged.leaderboard(), judged.metric),
        freeze=snapshot_curve(subject.run, logged),
        efficiency=judged.efficiency(seconds),
        depth_sweeps=depth_sweeps(judged.leaderboard(), seconds, layers=shared.encoder.depth),
        cost=_encoder_cost(subject, shared, seconds),
        fingerprints=subject.fingerprints(shared.weights),
        command=subject.command("analyse", *([] if question is None else ["--question", question])),
        seconds=round(time.perf_counter() - begin, 3),
        provenance=provenance(),
    )
    folder = subject.run.folder / subject.run.place
    _write(folder, record, errors)
    notices = subject.notices
    if question is not None and not attention:
        notices += (f"no model of {subject.run.name} attends to layers, so there is nothing to tell of {question}.",)
    return AnalysisResult(folder=folder, record=record, notices=notices)


def _outputs(
    subject: Subject, shared: SharedPass, show: Show | None, begin: float
) -> tuple[dict[str, ModelOutputs], dict[str, Verdict] | None]:
    """The saved outputs; or, if there are none, those of one pass, which are then saved, with the verdicts on them."""
    kept = load_kept(subject)
    if kept is not None:
        return kept.models, None
    (outputs,) = shared.read([subject], partial(tell, show))
    tell(show, f"scoring {in_words(len(outputs.models), 'model')} …")
    _, verdicts = judge_subject(subject, outputs, resamples=RESAMPLES, seed=0, begin=begin)
    return outputs.models, verdicts


def _encoder_cost(subject: Subject, shared: SharedPass, seconds: InferenceSeconds) -> EncoderCost:
    return EncoderCost(
        layers=shared.encoder.depth,
        trained_parameters=tuned_parameters(subject.run.own),
        timed_examples=seconds.examples,
        device=seconds.device,
        depths=tuple(seconds.encoder),
        seconds=tuple(seconds.encoder.values()),
    )


def _check_question(subject: Subject, question: str) -> None:
    ids = subject.part.examples.ids
    if question not in ids:
        near = get_close_matches(question, ids, n=1) or ids[:1]
        raise BertVisionError(
            f"--question is '{question}', and {subject.split} has no example of that id. Did you mean '{near[0]}'?"
        )


def _write(folder: Path, record: AnalysisRecord, errors: tuple[str, str] | None) -> None:
    """Write the record last, so that the file it names exists; then remove the error files of other pairs of models."""
    if errors is not None:
        write_text(folder / errors[0], errors[1])
    record.save(folder)
    for path in folder.glob("errors-*-vs-*.csv"):
        if path.name != record.errors:
            path.unlink(missing_ok=True)
