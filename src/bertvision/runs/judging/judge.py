"""Judge: scores any number of models on the same examples, at every threshold, with bootstrap intervals and tests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from bertvision.evaluation.bootstrap import difference_of, interval_of, resample
from bertvision.evaluation.decode import SpanDecoder, SpanPredictions
from bertvision.evaluation.outputs import Outputs, SpanScores, predicted_targets
from bertvision.evaluation.score import Scoring, defined, score_targets, scoring_squad1, scoring_squad2
from bertvision.evaluation.squad_metric import AnswerComparison, QuestionScores, apply_threshold, score_questions
from bertvision.evaluation.threshold import NoAnswerThreshold, fit_threshold
from bertvision.runs.judging.split_loss import split_loss
from bertvision.tasks.examples import Questions, as_questions, gold_targets
from bertvision.tasks.part import Part
from bertvision.tasks.task import Task

PLAIN, ZERO, FITTED, BEST = "plain", "zero", "fitted", "best_on_split"
"""Names of no-answer thresholds: none, 0, fitted on held-out examples, or the best for the very split."""

CLAIMED = 0.05
"""Significance level: a difference is claimed if the p-value of a paired test is smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The value of a metric and its 95 % confidence interval; None where not defined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """The difference of a metric from that of another model, by a paired bootstrap test on the same examples.

    Attributes:
        value: this metric minus that of the other model; None where not defined.
        low, high: its 95 % confidence interval.
        p: two-sided p-value.
        claimed: whether p is below `CLAIMED`.
    """

    value: float | None
    low: float | None
    high: float | None
    p: float
    claimed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresAt:
    """The scores of a model at a no-answer threshold.

    Attributes:
        threshold: a question with a larger margin is given no answer; None for tasks without a threshold.
        values: metrics by name.
        against: every metric compared with that of another model, by name; empty without a comparison.
    """

    threshold: float | None
    values: dict[str, Estimate]
    against: dict[str, PairedTest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a model to questions.

    Attributes:
        predictions: the best answers to each.
        scores: scores of the best answer to each, regardless of the threshold.
    """

    predictions: SpanPredictions
    scores: QuestionScores

    def scores_at(self, threshold: float | None) -> QuestionScores:
        """The scores with "no answer" where the margin exceeds a threshold; None always gives the best answer."""
        return self.scores if threshold is None else apply_threshold(self.scores, self.predictions.margin, threshold)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The predictions of a model, and its scores.

    Attributes:
        predictions: the best answers to every question; for other kinds of tasks the outputs, (examples, outputs).
        scorings: its scores by the name of the threshold.
        thresholds: the thresholds by name; None where there is none.
        held_out: its main metric on the held-out examples; None without any, or if it is not defined.
        loss: mean training loss of the task on the split; None if it is not finite.
        answers: the same answers with their scores; None for other kinds of tasks.
        held_out_answers: answers to the held-out questions; None without any.
    """

    predictions: SpanPredictions | NDArray[np.float32]
    scorings: dict[str, Scoring]
    thresholds: dict[str, float | None]
    held_out: float | None
    loss: float | None
    answers: Answers | None = None
    held_out_answers: Answers | None = None


@final
class Judge:
    """Scores models on one split; what does not depend on a model, such as normalised gold answers, is made once.

    Attributes:
        task: the task.
        split: the examples on which models are scored.
        held_out: held-out training examples, for thresholds and the choice of models; None without any.
    """

    def __init__(self, task: Task, split: Part, held_out: Part | None) -> None:
        """Prepare the examples.

        Raises:
            BertVisionError: a question is both in the split and held out.
        """
        self.task = task
        self.split = split
        self.held_out = held_out
        # of questions only: rows of tables have their numbers for ids, which repeat from split to split
        if held_out is not None and task.kind == "spans":
            NoAnswerThreshold(0.0, frozenset(held_out.examples.ids)).check_unseen(split.examples.ids)
        self._split_scorer = _PartScorer(task, split)
        self._held_out_scorer = None if held_out is None else _PartScorer(task, held_out)

    def judge(self, outputs: Outputs, held_out: Outputs | None) -> Verdict:
        """Score a model by its outputs on the split and on the held-out examples, in the form of `merge_windows`."""
        if isinstance(outputs, SpanScores):
            return self._judge_spans(outputs, held_out)
        scorings = {PLAIN: self._split_scorer.score_rows(outputs)}
        main = None if held_out is None else defined(self.held_out_score(held_out))
        return Verdict(outputs, scorings, {PLAIN: None}, main, self._loss(outputs))

    def held_out_score(self, held_out: Outputs) -> float:
        """The score by which models are chosen: the main metric, for questions F1 at the best threshold for them.

        Args:
            held_out: outputs on the held-out examples.
        """
        if isinstance(held_out, SpanScores):
            return self._best_f1(self._required_held_out().answers(held_out))
        return self._required_held_out().score_rows(held_out).values[self.task.main_metric]

    def _judge_spans(self, outputs: SpanScores, held_out: Outputs | None) -> Verdict:
        answers = self._split_scorer.answers(outputs)
        held = self._required_held_out().answers(held_out) if isinstance(held_out, SpanScores) else None
        main, fitted = (None, None) if held is None else (self._best_f1(held), self._fitted_threshold(held))
        loss = self._loss(outputs)
        if self.task.answerable_only:
            scorings = {PLAIN: scoring_squad1(answers.scores)}
            return Verdict(answers.predictions, scorings, {PLAIN: None}, main, loss, answers, held)
        thresholds: dict[str, float | None] = {ZERO: 0.0}
        if fitted is not None:
            thresholds[FITTED] = fitted
        questions = self._split_scorer.questions
        best = fit_threshold(answers.predictions, questions, answers.scores, no_answer_share=None)
        thresholds[BEST] = best.value
        scorings = {name: scoring_squad2(answers.scores_at(value)) for name, value in thresholds.items()}
        return Verdict(answers.predictions, scorings, thresholds, main, loss, answers, held)

    def _loss(self, outputs: Outputs) -> float | None:
        return defined(split_loss(self.task, self.split, outputs))

    def _required_held_out(self) -> "_PartScorer":
        if self._held_out_scorer is None:
            raise TypeError("nothing is held out")
        return self._held_out_scorer

    def _best_f1(self, held_out: Answers) -> float:
        """F1 on the held-out questions at the threshold that is best for them."""
        if self.task.answerable_only:
            return scoring_squad1(held_out.scores).values["f1"]
        questions = self._required_held_out().questions
        best = fit_threshold(held_out.predictions, questions, held_out.scores, no_answer_share=None).value
        return scoring_squad2(held_out.scores_at(best)).values["f1"]

    def _fitted_threshold(self, held_out: Answers) -> float:
        """The threshold fitted on held-out questions, to be used on others."""
        if self.task.answerable_only:
            return 0.0
        return fit_threshold(held_out.predictions, self._required_held_out().questions, held_out.scores).value


@final
class _PartScorer:
    """Scores models on one part: the split, or the held-out examples."""

    def __init__(self, task: Task, part: Part) -> None:
        self._task = task
        self._part = part
        if task.kind == "spans":
            self._golds = self.questions.golds()
            self._comparison = AnswerComparison()
            self._decoder = SpanDecoder(part.windows)

    @property
    def questions(self) -> Questions:
        return as_questions(self._part.examples)

    def answers(self, outputs: SpanScores) -> Answers:
        """The best answers, and their scores."""
        predictions = self._decoder.decode(outputs.start, outputs.end)
        version: Literal[1, 2] = 1 if self._task.answerable_only else 2
        texts = predictions.texts(self.questions, None)
        return Answers(predictions, score_questions(self._golds, texts, version=version, comparison=self._comparison))

    def score_rows(self, rows: NDArray[np.float32]) -> Scoring:
        return score_targets(self._task, gold_targets(self._part.examples), predicted_targets(self._task, rows))


def compare_verdicts(
    verdicts: Mapping[str, Verdict], against: str | None, *, resamples: int, seed: int
) -> dict[str, dict[str, ScoresAt]]:
    """The scores of every model with confidence intervals, each compared with one model, all on the same resamples.

    At the threshold that is best for the split nothing is compared, since it was chosen by the gold answers.

    Args:
        verdicts: predictions and scores by the model's name.
        against: name of the model that the others are compared with; None compares none.
        resamples: number of bootstrap resamples.
        seed: seed of the resampling.

    Returns:
        By the model's name, then by the name of the threshold.
    """
    keys = [(name, at) for name, verdict in verdicts.items() for at in verdict.scorings]
    scorings = [verdicts[name].scorings[at] for name, at in keys]
    metrics = [scoring.metric for scoring in scorings]
    resampled = dict(zip(keys, resample(metrics, scorings[0].rows, resamples=resamples, seed=seed), strict=True))
    results: dict[str, dict[str, ScoresAt]] = {name: {} for name in verdicts}
    for (name, at), draws in resampled.items():
        values = verdicts[name].scorings[at].values
        estimates = {}
        for metric, drawn in draws.items():
            interval = interval_of(drawn)
            estimates[metric] = Estimate(
                value=defined(values[metric]), low=defined(interval.low), high=defined(interval.high)
            )
        compared = {}
        if against is not None and name != against and at != BEST and at in verdicts[against].scorings:
            others = verdicts[against].scorings[at].values
            for metric, drawn in draws.items():
                difference = difference_of(values[metric] - others[metric], drawn - resampled[against, at][metric])
                compared[metric] = PairedTest(
                    value=defined(difference.value),
                    low=defined(difference.interval.low),
                    high=defined(difference.interval.high),
                    p=difference.p,
                    claimed=difference.p < CLAIMED,
                )
        results[name][at] = ScoresAt(threshold=verdicts[name].thresholds[at], values=estimates, against=compared)
    return results
