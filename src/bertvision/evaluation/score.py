"""Scores of predictions for any task: official metrics, confidence intervals, and a paired test of two models."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.evaluation.bootstrap import Metric, bootstrap_intervals, paired_difference
from bertvision.evaluation.metrics import label_metrics, score_metrics, tag_metrics
from bertvision.evaluation.paper_metric import score_questions_paper
from bertvision.evaluation.squad_metric import (
    Golds,
    QuestionScores,
    apply_threshold,
    best_threshold,
    no_answer_array,
    score_questions,
    squad2_metrics,
    weighted_squad2,
)
from bertvision.evaluation.weighted import weighted_label_metrics, weighted_score_metrics, weighted_tag_metrics
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer


def defined(value: float | None) -> float | None:
    """A score for JSON, which has no NaN: None where it is not finite."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Scoring:
    """A model's scores.

    Attributes:
        values: all metrics on all examples.
        metric: for resampling: metrics on draws of the examples; not all of `values` have one.
        rows: number of examples.
    """

    values: dict[str, float]
    metric: Metric
    rows: int

    def intervals(self, resamples: int, seed: int = 0) -> dict[str, float]:
        """95 % confidence intervals as `<metric>_low` and `<metric>_high`."""
        flat = {}
        for name, interval in bootstrap_intervals(self.metric, self.rows, resamples=resamples, seed=seed).items():
            flat[f"{name}_low"], flat[f"{name}_high"] = interval.low, interval.high
        return flat

    def compared_with(self, other: "Scoring", resamples: int, seed: int = 0) -> dict[str, float]:
        """`<metric>_difference`: this minus `other`, with its interval, and `<metric>_p` of a paired bootstrap test."""
        flat = {}
        differences = paired_difference(self.metric, other.metric, self.rows, resamples=resamples, seed=seed)
        for name, difference in differences.items():
            flat[f"{name}_difference"] = difference.value
            flat[f"{name}_difference_low"] = difference.interval.low
            flat[f"{name}_difference_high"] = difference.interval.high
            flat[f"{name}_p"] = difference.p
        return flat


def score_squad2(
    golds: Golds,
    predictions: Mapping[str, str],
    *,
    no_answer: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> Scoring:
    """All that the official SQuAD 2.0 script prints, and the numbers of missing and extra predictions.

    Args:
        golds: gold answers by id; an empty list if the question has no answer.
        predictions: answers by id; "" means no answer. A missing one scores 0, whether or not there is an answer.
        no_answer: no-answer values by id, the larger, the likelier that there is no answer; adds the `best_*` values.
        threshold: above this no-answer value, an answer counts as ""; without `no_answer` of no effect.

    Raises:
        BertVisionError: there are no golds, no prediction is for any of them, or a question has no no-answer value.

    Example:
        >>> from bertvision import score_squad2
        >>> score_squad2({"q1": ["the cat"], "q2": []}, {"q1": "Cat!", "q2": "dog"}).values["exact"]
        50.0
    """
    _check_some(len(golds), "questions")
    raw = score_questions(golds, predictions)
    if no_answer is None:
        return scoring_squad2(raw)
    values = no_answer_array(raw.ids, no_answer)
    best_exact, exact_threshold = best_threshold(raw, raw.exact, no_answer)
    best_f1, f1_threshold = best_threshold(raw, raw.f1, no_answer)
    best = {
        "best_exact": best_exact,
        "best_exact_thresh": exact_threshold,
        "best_f1": best_f1,
        "best_f1_thresh": f1_threshold,
    }
    return scoring_squad2(apply_threshold(raw, values, threshold), best)


def score_squad1(golds: Golds, predictions: Mapping[str, str]) -> Scoring:
    """`exact_match` and `f1` of the official SQuAD 1.1 script; a missing prediction scores 0."""
    _check_some(len(golds), "questions")
    return scoring_squad1(score_questions(golds, predictions, version=1))


def scoring_squad1(scores: QuestionScores) -> Scoring:
    """The result of `score_squad1` from the scores of single questions."""

    def metric(counts: FloatArray) -> dict[str, FloatArray]:
        means = weighted_squad2(scores, counts)
        return {"exact_match": means["exact"], "f1": means["f1"]}

    means = squad2_metrics(scores)
    values = {"exact_match": means["exact"], "f1": means["f1"], "total": means["total"], **_counts(scores)}
    return Scoring(values, metric, len(scores.ids))


def score_paper(golds: Golds, predictions: Mapping[str, str], tokenizer: TextTokenizer) -> Scoring:
    """The result of `score_squad2` by the BERTVision paper's scorer: word pieces, not normalised."""
    _check_some(len(golds), "questions")
    return scoring_squad2(score_questions_paper(golds, predictions, tokenizer))


def scoring_squad2(scores: QuestionScores, more: Mapping[str, float] | None = None) -> Scoring:
    """The result of `score_squad2` from the scores of single questions.

    Args:
        scores: scores of every question.
        more: further values, which are not resampled.
    """
    values = {**squad2_metrics(scores), **(more or {}), **_counts(scores)}
    return Scoring(values, partial(weighted_squad2, scores), len(scores.ids))


def _counts(scores: QuestionScores) -> dict[str, float]:
    return {"missing": len(scores.missing), "extra": len(scores.extra)}


def _check_some(rows: int, what: str) -> None:
    """Refuse a score of nothing: there is none."""
    if not rows:
        raise BertVisionError(f"there are no {what} to score. Expected one or more.")


def score_targets(task: Task, golds: IntArray | FloatArray, predictions: IntArray | FloatArray) -> Scoring:
    """Score class numbers, tags or scores by the task's official metrics.

    Raises:
        BertVisionError: there are no golds, or predictions and golds differ in shape.
    """
    if len(predictions) != len(golds):
        raise BertVisionError(f"{len(predictions):,} predictions for {len(golds):,} golds. Expected one for each.")
    if predictions.shape != golds.shape:
        raise BertVisionError(f"predictions are {predictions.shape}, golds {golds.shape}. Expected the same shape.")
    _check_some(len(golds), "examples")
    match task.kind:
        case "labels":
            expected, predicted = golds.astype(np.int64), predictions.astype(np.int64)
            classes = len(task.labels)
            values = label_metrics(expected, predicted, classes=classes, metrics=task.metrics)
            metric: Metric = partial(weighted_label_metrics, expected, predicted, classes=classes, metrics=task.metrics)
        case "tags":
            expected, predicted = golds.astype(np.int64), predictions.astype(np.int64)
            values = tag_metrics(expected, predicted, metrics=task.metrics)
            metric = partial(weighted_tag_metrics, expected, predicted, metrics=task.metrics)
        case "scores":
            golds, predictions = golds.astype(np.float64), predictions.astype(np.float64)
            values = score_metrics(golds, predictions, metrics=task.metrics)
            metric = partial(weighted_score_metrics, golds, predictions, metrics=task.metrics)
        case "spans":
            raise AssertionError("answers in a text are scored by score_squad1 and score_squad2")
        case _:
            assert_never(task.kind)
    return Scoring(values, metric, len(golds))
