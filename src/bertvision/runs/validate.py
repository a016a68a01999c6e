"""Validation: the task's metrics of a model on held-out examples and on dev, with a fitted no-answer threshold."""

from dataclasses import dataclass

from bertvision.evaluation.decode import SpanPredictions, decode_spans
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.evaluation.outputs import Outputs, as_rows, as_spans, merge_rows, predicted_targets
from bertvision.evaluation.score import score_squad1, score_squad2, score_targets
from bertvision.evaluation.threshold import NoAnswerThreshold, fit_threshold
from bertvision.inference.outputs import PassOptions, row_scores, span_scores
from bertvision.objectives import Pool
from bertvision.tasks.examples import Questions, as_questions, gold_targets
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task
from bertvision.training.model import TunedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """Computes the outputs and metrics of models.

    Attributes:
        task: the task.
        held_out: held-out training examples, for thresholds and the choice of models; None if there are none.
        dev: the split on which results are reported; None if there is none, or it is left alone.
        pool: how tokens are pooled, for labels, tags and scores.
        passes: options of the forward passes.
    """

    task: Task
    held_out: Part | None
    dev: Part | None
    pool: Pool
    passes: PassOptions

    def __post_init__(self) -> None:
        """Refuse questions that are in both parts now, before training, not only when a first snapshot is scored."""
        if self.held_out is not None and self.dev is not None and self.fits_threshold:
            dev = self.dev.examples.ids
            NoAnswerThreshold(0.0, frozenset(self.held_out.examples.ids)).check_unseen(dev)

    @property
    def fits_threshold(self) -> bool:
        """Whether a threshold for "no answer" is fitted: only if questions may have none."""
        return self.task.kind == "spans" and not self.task.answerable_only

    def score(self, model: TunedModel) -> tuple[dict[str, float], float | None]:
        """Metrics of a model; see `score_outputs`."""
        return self.score_outputs(self.outputs(model, self.held_out), self.outputs(model, self.dev))

    def score_outputs(self, held_out: Outputs | None, dev: Outputs | None) -> tuple[dict[str, float], float | None]:
        """All metrics by name, and the one for choosing models (`Task.choosing_metric`) on the held-out examples.

        The names of held-out metrics begin with `held_out_`. Questions that may have no answer are scored on dev at
        three thresholds: `f1` at 0, `f1_fitted` at the one fitted on held-out questions, `best_f1` at the best for dev
        itself. The second value is None without held-out examples.
        """
        if self.task.kind == "spans":
            return self._score_spans(held_out, dev)
        values: dict[str, float] = {}
        main = None
        for prefix, part, outputs in ((HELD_OUT_PREFIX, self.held_out, held_out), ("", self.dev, dev)):
            if part is not None and outputs is not None:
                metrics = self._score_rows(part, outputs)
                values |= {prefix + name: value for name, value in metrics.items()}
                main = metrics[self.task.main_metric] if prefix else main
        return values, main

    def outputs(self, model: TunedModel, part: Part | None) -> Outputs | None:
        """The outputs of a model on one of the parts; None for None."""
        if part is None:
            return None
        if self.task.kind == "spans":
            return span_scores(model, part.windows, self.passes)
        return row_scores(model, part.windows, self.passes, pool=self.pool)

    def _score_rows(self, part: Part, outputs: Outputs) -> dict[str, float]:
        merged = merge_rows(self.task, part.windows, as_rows(outputs))
        return score_targets(self.task, gold_targets(part.examples), predicted_targets(self.task, merged)).values

    def _score_spans(self, held_out: Outputs | None, dev: Outputs | None) -> tuple[dict[str, float], float | None]:
        values: dict[str, float] = {}
        threshold, main = None, None
        if self.held_out is not None and held_out is not None:
            predictions, questions = _decode(self.held_out, held_out)
            metrics = span_metrics(self.task, questions, predictions, None)
            values |= {HELD_OUT_PREFIX + name: value for name, value in metrics.items()}
            main = metrics[self.task.choosing_metric]
            if self.fits_threshold:
                threshold = fit_threshold(predictions, questions)
                values["threshold"] = threshold.value
        if self.dev is not None and dev is not None:
            predictions, questions = _decode(self.dev, dev)
            values |= span_metrics(self.task, questions, predictions, threshold)
        return values, main


def _decode(part: Part, outputs: Outputs) -> tuple[SpanPredictions, Questions]:
    questions, scores = as_questions(part.examples), as_spans(outputs)
    return decode_spans(part.windows, scores.start, scores.end), questions


def span_metrics(
    task: Task, questions: Questions, predictions: SpanPredictions, threshold: NoAnswerThreshold | None
) -> dict[str, float]:
    """The SQuAD metrics of predictions, by name.

    If questions may have no answer: at threshold 0, at a fitted one (`…_fitted`; None leaves these out), and at the
    best for these very questions (`best_…`).
    """
    golds = questions.golds()
    answers = predictions.texts(questions, None)
    if task.answerable_only:
        return score_squad1(golds, answers).values
    margins = dict(zip(questions.ids, predictions.margin.tolist(), strict=True))
    values = score_squad2(golds, answers, no_answer=margins, threshold=0.0).values
    if threshold is not None:
        fitted = score_squad2(golds, threshold.answers(predictions, questions)).values
        values |= {f"{name}_fitted": fitted[name] for name in ("exact", "f1")}
    return values
