"""Judge: scores any number of models on the same examples, at every threshold, with intervals and a paired test."""

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
"""Under which threshold scores are: none, 0, fitted on held-out examples, or the best for the very split."""

CLAIMED = 0.05
"""A difference is claimed where a paired test gives a smaller p."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A metric, and where it lies with 95 % confidence; None where it is not defined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """How much better than another model on the same examples, by a paired bootstrap test.

    Attributes:
        value: the difference.
        low, high: its interval.
        p: two-sided.
        claimed: whether p is small enough to speak of a difference.
    """

    value: float | None
    low: float | None
    high: float | None
    p: float
    claimed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresAt:
    """The scores of a model at a threshold.

    Attributes:
        threshold: margins above it are answered with nothing; None where there is none.
        values: every metric.
        against: every metric compared with that of another model; empty where there is none.
    """

    threshold: float | None
    values: dict[str, Estimate]
    against: dict[str, PairedTest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answers:
    """What a model said to questions.

    Attributes:
        said: the best answers to each.
        scores: scores of the best one, if it were always given.
    """

    said: SpanPredictions
    scores: QuestionScores

    def scores_at(self, threshold: float | None) -> QuestionScores:
        """The scores with silence where the margin exceeds a threshold; None is never silent."""
        return self.scores if threshold is None else apply_threshold(self.scores, self.said.margin, threshold)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model said, and what it is worth.

    Attributes:
        said: the best answers to every question, or one row per example.
        scorings: scorings by the name of the threshold.
        thresholds: their values.
        held_out: its main metric on the held-out examples; None without any, or where it is not defined.
        loss: the mean of the task's training loss on the split; None where it is not finite.
        answers: answers to the questions of the split; None for other kinds of tasks.
        held_out_answers: answers to the held-out questions; None without any.
    """

    said: SpanPredictions | NDArray[np.float32]
    scorings: dict[str, Scoring]
    thresholds: dict[str, float | None]
    held_out: float | None
    loss: float | None
    answers: Answers | None = None
    held_out_answers: Answers | None = None


@final
class Judge:
    """Scores models on one split; what they share, such as normalised gold answers, is made once.

    Attributes:
        task: what is asked.
        split: the examples that are judged by.
        held_out: training examples that fit thresholds and choose.
    """

    def __init__(self, task: Task, split: Part, held_out: Part | None) -> None:
        """Look at the examples.

        Raises:
            BertVisionError: some of them are on both sides.
        """
        self.task = task
        self.split = split
        self.held_out = held_out
        if held_out is not None and task.kind == "spans":  # rows of tables have numbers for ids, alike in all splits
            NoAnswerThreshold(0.0, frozenset(held_out.examples.ids)).check_unseen(split.examples.ids)
        self._side = _Side(task, split)
        self._held_out_side = None if held_out is None else _Side(task, held_out)

    def judge(self, outputs: Outputs, held_out: Outputs | None) -> Verdict:
        """Score a model by its outputs; those of labels and scores are one row per example."""
        if isinstance(outputs, SpanScores):
            return self._judge_spans(outputs, held_out)
        scorings = {PLAIN: self._side.score_rows(outputs)}
        main = None if held_out is None else defined(self.choose(held_out))
        return Verdict(outputs, scorings, {PLAIN: None}, main, self._loss(outputs))

    def choose(self, held_out: Outputs) -> float:
        """The main metric on the held-out examples, by which one chooses; of questions F1 at its best threshold."""
        if isinstance(held_out, SpanScores):
            return self._best_f1(self._judging().answers(held_out))
        return self._judging().score_rows(held_out).values[self.task.main_metric]

    def _judge_spans(self, outputs: SpanScores, held_out: Outputs | None) -> Verdict:
        answers = self._side.answers(outputs)
        held = self._judging().answers(held_out) if isinstance(held_out, SpanScores) else None
        main, fitted = (None, None) if held is None else (self._best_f1(held), self._fit(held))
        loss = self._loss(outputs)
        if self.task.answerable_only:
            scorings = {PLAIN: scoring_squad1(answers.scores)}
            return Verdict(answers.said, scorings, {PLAIN: None}, main, loss, answers, held)
        thresholds: dict[str, float | None] = {ZERO: 0.0}
        if fitted is not None:
            thresholds[FITTED] = fitted
        best = fit_threshold(answers.said, self._side.questions, answers.scores, no_answer_share=None)
        thresholds[BEST] = best.value
        scorings = {name: scoring_squad2(answers.scores_at(value)) for name, value in thresholds.items()}
        return Verdict(answers.said, scorings, thresholds, main, loss, answers, held)

    def _loss(self, outputs: Outputs) -> float | None:
        return defined(split_loss(self.task, self.split, outputs))

    def _judging(self) -> "_Side":
        if self._held_out_side is None:
            raise TypeError("nothing is held out")
        return self._held_out_side

    def _best_f1(self, held_out: Answers) -> float:
        """F1 on the held-out questions at the threshold that is best for them."""
        if self.task.answerable_only:
            return scoring_squad1(held_out.scores).values["f1"]
        questions = self._judging().questions
        best = fit_threshold(held_out.said, questions, held_out.scores, no_answer_share=None).value
        return scoring_squad2(held_out.scores_at(best)).values["f1"]

    def _fit(self, held_out: Answers) -> float:
        """The threshold for other questions."""
        if self.task.answerable_only:
            return 0.0
        return fit_threshold(held_out.said, self._judging().questions, held_out.scores).value


@final
class _Side:
    """A part, and what all models share on it."""

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
        said = self._decoder.decode(outputs.start, outputs.end)
        version: Literal[1, 2] = 1 if self._task.answerable_only else 2
        texts = said.texts(self.questions, None)
        return Answers(said, score_questions(self._golds, texts, version=version, comparison=self._comparison))

    def score_rows(self, rows: NDArray[np.float32]) -> Scoring:
        return score_targets(self._task, gold_targets(self._part.examples), predicted_targets(self._task, rows))


def compare_verdicts(
    verdicts: Mapping[str, Verdict], against: str | None, *, resamples: int, seed: int
) -> dict[str, dict[str, ScoresAt]]:
    """The scores of every model with intervals, and each compared with one of them, all on the same draws.

    At the threshold that is best for the split nothing is compared: it was chosen by looking at the answers.

    Args:
        verdicts: verdicts by the model's name.
        against: which model the others are compared with; None compares none.
        resamples: how many draws.
        seed: seed of the draws.
    """
    keys = [(name, at) for name, verdict in verdicts.items() for at in verdict.scorings]
    scorings = [verdicts[name].scorings[at] for name, at in keys]
    found = resample([one.metric for one in scorings], scorings[0].rows, resamples=resamples, seed=seed)
    draws = dict(zip(keys, found, strict=True))
    results: dict[str, dict[str, ScoresAt]] = {name: {} for name in verdicts}
    for (name, at), mine in draws.items():
        values = verdicts[name].scorings[at].values
        estimates = {}
        for metric, drawn in mine.items():
            interval = interval_of(drawn)
            estimates[metric] = Estimate(
                value=defined(values[metric]), low=defined(interval.low), high=defined(interval.high)
            )
        compared = {}
        if against is not None and name != against and at != BEST and at in verdicts[against].scorings:
            theirs = verdicts[against].scorings[at].values
            for metric, drawn in mine.items():
                one = difference_of(values[metric] - theirs[metric], drawn - draws[against, at][metric])
                compared[metric] = PairedTest(
                    value=defined(one.value),
                    low=defined(one.interval.low),
                    high=defined(one.interval.high),
                    p=one.p,
                    claimed=one.p < CLAIMED,
                )
        results[name][at] = ScoresAt(threshold=verdicts[name].thresholds[at], values=estimates, against=compared)
    return results
