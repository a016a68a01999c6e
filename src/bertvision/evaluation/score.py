"""Predictions of any task against its golds: the official values, intervals, and a paired test of two models."""

from collections.abc import Mapping
from dataclasses import dataclass
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
)
from bertvision.tasks.examples import FloatArray, IntArray
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer


@dataclass(frozen=True, slots=True)
class Scoring:
    """A model's scores.

    Attributes:
        values: every metric on all examples.
        metric: the metrics that can be resampled, on any rows.
        rows: how many examples there are.
    """

    values: dict[str, float]
    metric: Metric
    rows: int

    def intervals(self, resamples: int, seed: int = 0) -> dict[str, float]:
        """`<metric>_low` and `<metric>_high`: where the value lies with 95 % confidence."""
        flat = {}
        for name, interval in bootstrap_intervals(self.metric, self.rows, resamples=resamples, seed=seed).items():
            flat[f"{name}_low"], flat[f"{name}_high"] = interval.low, interval.high
        return flat

    def compared_with(self, other: "Scoring", resamples: int, seed: int = 0) -> dict[str, float]:
        """`<metric>_difference` from the other model, its interval, and `<metric>_p` of a paired bootstrap test."""
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
    """Everything the official SQuAD 2.0 script prints, and how many predictions are missing or extra.

    Args:
        golds: gold answers by id; none for a question without an answer.
        predictions: answers by id; "" means no answer. A missing one scores 0, whether or not there is an answer.
        no_answer: how sure the model is that there is no answer, by id; adds the `best_*` values.
        threshold: questions with a larger no-answer value count as answered with nothing.

    Example:
        >>> from bertvision import score_squad2
        >>> score_squad2({"q1": ["the cat"], "q2": []}, {"q1": "Cat!", "q2": "dog"}).values["exact"]
        50.0
    """
    raw = score_questions(golds, predictions)
    if no_answer is None:
        return _scoring2(raw, {})
    values = no_answer_array(raw.ids, no_answer)
    best_exact, exact_threshold = best_threshold(raw, raw.exact, no_answer)
    best_f1, f1_threshold = best_threshold(raw, raw.f1, no_answer)
    best = {
        "best_exact": best_exact,
        "best_exact_thresh": exact_threshold,
        "best_f1": best_f1,
        "best_f1_thresh": f1_threshold,
    }
    return _scoring2(apply_threshold(raw, values, threshold), best)


def score_squad1(golds: Golds, predictions: Mapping[str, str]) -> Scoring:
    """What the official SQuAD 1.1 script prints: `exact_match` and `f1`; a missing prediction scores 0."""
    scores = score_questions(golds, predictions, version=1)

    def metric(rows: IntArray) -> dict[str, float]:
        return {"exact_match": 100.0 * float(scores.exact[rows].mean()), "f1": 100.0 * float(scores.f1[rows].mean())}

    every = np.arange(len(golds))
    return Scoring({**metric(every), "total": len(golds), **_counts(scores)}, metric, len(golds))


def score_paper(golds: Golds, predictions: Mapping[str, str], tokenizer: TextTokenizer) -> Scoring:
    """The values of `score_squad2` by the scorer of the BERTVision paper: word pieces, not normalised."""
    return _scoring2(score_questions_paper(golds, predictions, tokenizer), {})


def _scoring2(scores: QuestionScores, best: dict[str, float]) -> Scoring:
    def metric(rows: IntArray) -> dict[str, float]:
        means = squad2_metrics(scores, rows)
        return {name: value for name, value in means.items() if not name.endswith("total")}

    return Scoring({**squad2_metrics(scores), **best, **_counts(scores)}, metric, len(scores.ids))


def _counts(scores: QuestionScores) -> dict[str, float]:
    return {"missing": len(scores.missing), "extra": len(scores.extra)}


def score_targets(task: Task, golds: IntArray | FloatArray, predictions: IntArray | FloatArray) -> Scoring:
    """Class numbers, tags or scores against the golds, by the task's official metrics.

    Raises:
        BertVisionError: there are more or fewer predictions than golds, or for other labels.
    """
    if len(predictions) != len(golds):
        raise BertVisionError(f"{len(predictions):,} predictions for {len(golds):,} golds. Expected one for each.")
    if predictions.shape != golds.shape:
        raise BertVisionError(f"predictions are {predictions.shape}, golds {golds.shape}. Expected the same shape.")

    def metric(rows: IntArray) -> dict[str, float]:
        match task.kind:
            case "labels":
                return label_metrics(
                    golds[rows].astype(np.int64),
                    predictions[rows].astype(np.int64),
                    classes=len(task.labels),
                    metrics=task.metrics,
                )
            case "tags":
                return tag_metrics(
                    golds[rows].astype(np.int64), predictions[rows].astype(np.int64), metrics=task.metrics
                )
            case "scores":
                return score_metrics(
                    golds[rows].astype(np.float64), predictions[rows].astype(np.float64), metrics=task.metrics
                )
            case "spans":
                raise AssertionError("answers in a text are scored by score_squad1 and score_squad2")
            case _:
                assert_never(task.kind)

    return Scoring(metric(np.arange(len(golds))), metric, len(golds))
