"""From outputs to scores: span decoding, thresholds, official metrics, confidence."""

from bertvision.evaluation.bootstrap import Difference, Interval, bootstrap_intervals, paired_difference
from bertvision.evaluation.decode import SpanPredictions, decode_spans
from bertvision.evaluation.metrics import confusion_matrix, label_metrics, score_metrics, tag_metrics
from bertvision.evaluation.paper_metric import decode_paper
from bertvision.evaluation.score import Scoring, score_paper, score_squad1, score_squad2, score_targets
from bertvision.evaluation.threshold import NoAnswerThreshold, fit_threshold

__all__ = [
    "Difference",
    "Interval",
    "NoAnswerThreshold",
    "Scoring",
    "SpanPredictions",
    "bootstrap_intervals",
    "confusion_matrix",
    "decode_paper",
    "decode_spans",
    "fit_threshold",
    "label_metrics",
    "paired_difference",
    "score_metrics",
    "score_paper",
    "score_squad1",
    "score_squad2",
    "score_targets",
    "tag_metrics",
]
