"""The analysis of each model of a run, by its outputs on a split and on held-out examples, and of pairs of models."""

from typing import Any, assert_never

import numpy as np

from bertvision.analysis.calibration import (
    Calibration,
    answer_logits,
    calibrate,
    fit_answer_temperature,
    fit_temperature,
)
from bertvision.analysis.confusion import confusion, tag_counts
from bertvision.analysis.context_lengths import ContextLengths, context_lengths, context_tokens
from bertvision.analysis.histograms import scatter, score_histogram
from bertvision.analysis.question_types import question_types
from bertvision.analysis.second_answers import second_answers
from bertvision.analysis.side_by_side import ErrorRow, compare_answers, compare_labels, compare_tags
from bertvision.evaluation.decode import SpanPredictions
from bertvision.evaluation.outputs import as_rows, predicted_targets
from bertvision.runs.analysing.analysis_record import AnalysedModel
from bertvision.runs.judging.evaluation_record import EvaluatedRow
from bertvision.runs.judging.judge import FITTED, PLAIN, ZERO, Answers, Verdict
from bertvision.runs.judging.kept_outputs import ModelOutputs
from bertvision.runs.judging.subject import Subject
from bertvision.tasks.examples import Examples, FloatArray, IntArray, Questions, Texts, as_questions, gold_targets


def threshold_name(verdict: Verdict) -> str:
    """The name of the threshold at which a model is analysed: the fitted one; without one 0; of other tasks none."""
    return next(name for name in (FITTED, ZERO, PLAIN) if name in verdict.thresholds)


def _threshold(verdict: Verdict) -> float | None:
    return verdict.thresholds[threshold_name(verdict)]


def analyse_model(
    subject: Subject, row: EvaluatedRow, verdict: Verdict, outputs: ModelOutputs, *, score: float | None
) -> AnalysedModel:
    """The analysis of one model.

    Args:
        subject: its run, and the split.
        row: its row in an evaluation.
        verdict: its predictions and scores.
        outputs: its outputs on the split and on held-out examples.
        score: its main metric at its threshold; None where not defined.
    """
    return AnalysedModel(
        name=row.name,
        head=str(row.head),
        own=row.own,
        seed=row.seed,
        parameters=row.parameters,
        depth=row.depth,
        held_out=row.held_out,
        threshold=_threshold(verdict),
        score=score,
        **_analyses(subject, verdict, outputs),
    )


def compare_models(subject: Subject, first: Verdict, second: Verdict) -> tuple[ErrorRow, ...] | None:
    """The examples that at least one of two models got wrong; None for scores, which are hardly ever exactly right."""
    task, examples = subject.parts.task, subject.part.examples
    match task.kind:
        case "spans":
            questions = as_questions(examples)
            answers = [_predicted_answers(questions, verdict) for verdict in (first, second)]
            return compare_answers(questions, first=answers[0], second=answers[1])
        case "labels" | "tags":
            classes = [_predicted_classes(subject, verdict) for verdict in (first, second)]
            compare = compare_labels if task.kind == "labels" else compare_tags
            return compare(_as_texts(examples), task.labels, first=classes[0], second=classes[1])
        case "scores":
            return None
        case _:
            assert_never(task.kind)


def compare_contexts(subject: Subject, first: Verdict, second: Verdict) -> ContextLengths | None:
    """Context lengths of the questions that two models answer correctly; None for other kinds of tasks."""
    if first.answers is None or second.answers is None:
        return None
    return context_lengths(
        as_questions(subject.part.examples),
        context_tokens(subject.part.windows),
        first=first.answers.scores_at(_threshold(first)),
        second=second.answers.scores_at(_threshold(second)),
    )


def _analyses(subject: Subject, verdict: Verdict, outputs: ModelOutputs) -> dict[str, Any]:
    """The analyses for the task's kind, by the name of their field in `AnalysedModel`."""
    task, part = subject.parts.task, subject.part
    match task.kind:
        case "spans":
            return _answer_analyses(subject, verdict)
        case "labels":
            golds, predicted = _as_classes(gold_targets(part.examples)), _predicted_classes(subject, verdict)
            counts = confusion(task.labels, golds, predicted)
            return {"confusion": counts, "calibration": _label_calibration(subject, outputs)}
        case "tags":
            golds, predicted = _as_classes(gold_targets(part.examples)), _predicted_classes(subject, verdict)
            return {"tags": tag_counts(task.labels, golds, predicted)}
        case "scores":
            return _score_analyses(subject, outputs)
        case _:
            assert_never(task.kind)


def _answer_analyses(subject: Subject, verdict: Verdict) -> dict[str, Any]:
    examples, answers = as_questions(subject.part.examples), verdict.answers
    if answers is None:
        raise TypeError("spans are answers")
    at = _threshold(verdict)
    return {
        "question_types": question_types(examples, answers.scores_at(at)),
        "second_answers": second_answers(examples, answers.predictions, threshold=at),
        "calibration": _answer_calibration(subject, answers, verdict.held_out_answers, at),
    }


def _answer_calibration(
    subject: Subject, answers: Answers, held_out: Answers | None, at: float | None
) -> Calibration | None:
    if subject.held_out is None or held_out is None:
        return None
    temperature = fit_answer_temperature(
        _answer_logits(held_out, at), held_out.scores_at(at).exact == 1.0, ids=subject.held_out.examples.ids
    )
    right = answers.scores_at(at).exact == 1.0
    return calibrate(temperature, _answer_logits(answers, at), right=right, ids=subject.part.examples.ids)


def _answer_logits(answers: Answers, at: float | None) -> FloatArray:
    """The logits of the best answers, and, where questions may have no answer, that of "no answer"."""
    return answers.predictions.scores if at is None else answer_logits(answers.predictions, threshold=at)


def _label_calibration(subject: Subject, outputs: ModelOutputs) -> Calibration | None:
    judged = subject.held_out is subject.part  # data with a training split alone: nothing is left to fit on
    if subject.held_out is None or outputs.held_out is None or judged:
        return None
    held, rows = as_rows(outputs.held_out).astype(np.float64), as_rows(outputs.split).astype(np.float64)
    # rows of tables have their numbers for ids, which repeat from split to split
    held_out_ids = [f"held out {key}" for key in subject.held_out.examples.ids]
    split_ids = [f"judged {key}" for key in subject.part.examples.ids]
    temperature = fit_temperature(held, _as_classes(gold_targets(subject.held_out.examples)), ids=held_out_ids)
    right = rows.argmax(axis=1) == gold_targets(subject.part.examples)
    return calibrate(temperature, rows, right=right, ids=split_ids)


def _score_analyses(subject: Subject, outputs: ModelOutputs) -> dict[str, Any]:
    golds = gold_targets(subject.part.examples).astype(np.float64)
    predicted = as_rows(outputs.split)[:, 0].astype(np.float64)
    limits = subject.parts.task.limits or (float(golds.min()), float(golds.max()))
    histogram = score_histogram(golds, predicted, limits=limits) if limits[0] < limits[1] else None
    return {"histogram": histogram, "scatter": scatter(golds, predicted)}


def _predicted_classes(subject: Subject, verdict: Verdict) -> IntArray:
    if isinstance(verdict.predictions, SpanPredictions):
        raise TypeError("answers have no class")
    return _as_classes(predicted_targets(subject.parts.task, verdict.predictions))


def _as_classes(targets: IntArray | FloatArray) -> IntArray:
    return targets.astype(np.int64)


def _predicted_answers(examples: Questions, verdict: Verdict) -> dict[str, str]:
    if verdict.answers is None:
        raise TypeError("spans are answers")
    return verdict.answers.predictions.texts(examples, _threshold(verdict))


def _as_texts(examples: Examples) -> Texts:
    """Texts as they are; the questions of an answerability task as texts with their label."""
    if isinstance(examples, Texts):
        return examples
    return Texts(examples.ids, examples.questions, None, gold_targets(examples))
