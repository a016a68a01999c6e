"""The no-answer threshold: fitted on held-out questions, and never applied to these same questions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import SpanPredictions
from bertvision.evaluation.held_out import check_unseen
from bertvision.evaluation.squad_metric import QuestionScores, cut_totals, score_questions
from bertvision.tasks.examples import Questions

NO_ANSWER_SHARE = 0.5
"""Share of unanswerable questions that a threshold is fitted for: a half, as in SQuAD 2.0's dev and test sets; of its
training questions far fewer are unanswerable, and in many articles none."""

FEWEST = 20
"""Fewest questions with and without an answer that a threshold is fitted on: on fewer it is a matter of chance."""


@dataclass(frozen=True, slots=True)
class NoAnswerThreshold:
    """Answers are "" if their margin (see `SpanPredictions.margin`) exceeds `value`.

    Attributes:
        value: the threshold.
        fitted_on: ids of the questions it was fitted on; it is not applied to any of them.
    """

    value: float
    fitted_on: frozenset[str]

    def answers(self, predictions: SpanPredictions, examples: Questions) -> dict[str, str]:
        """The best answer of every question by id, "" where the margin exceeds the threshold.

        Raises:
            BertVisionError: the threshold was fitted on one of these questions, so that scores would be too high.
        """
        self.check_unseen(examples.ids)
        return predictions.texts(examples, self.value)

    def check_unseen(self, ids: Sequence[str]) -> None:
        """Refuse questions that the threshold was fitted on.

        Raises:
            BertVisionError: one of `ids` is among these.
        """
        check_unseen("no-answer threshold", self.fitted_on, ids)


def fit_threshold(
    predictions: SpanPredictions,
    examples: Questions,
    scores: QuestionScores | None = None,
    *,
    no_answer_share: float | None = NO_ANSWER_SHARE,
) -> NoAnswerThreshold:
    """The threshold with the best F1 on held-out questions, weighted so that a given share of them has no answer.

    It lies half-way between the margins of the last question that it answers and the first that it does not. Questions
    with equal margins are answered together or not at all.

    Args:
        predictions: for these questions.
        examples: held-out questions.
        scores: scores of the best answer to each question; None computes them.
        no_answer_share: total weight of the questions without an answer, whatever their number; with fewer than
            `FEWEST` questions with or without an answer the threshold is 0. None weighs all questions equally.

    Raises:
        BertVisionError: `no_answer_share` is not between 0 and 1.
    """
    if scores is None:
        scores = score_questions(examples.golds(), predictions.texts(examples, None))
    counts = None
    if no_answer_share is not None:
        if not 0.0 < no_answer_share < 1.0:
            raise BertVisionError(f"no_answer_share is {no_answer_share:g}, more than 0 and less than 1 is expected.")
        with_answer = int(scores.answerable.sum())
        without = len(examples) - with_answer
        if min(with_answer, without) < FEWEST:
            return NoAnswerThreshold(0.0, frozenset(examples.ids))
        counts = np.where(scores.answerable, (1 - no_answer_share) * without, no_answer_share * with_answer)
    order = np.argsort(predictions.margin, kind="stable")
    margin = predictions.margin[order]
    totals = cut_totals(scores, scores.f1, order, counts)
    totals[1:-1][margin[:-1] == margin[1:]] = -np.inf  # no threshold lies between equal margins
    answered = int(np.argmax(totals))
    if answered == 0:  # no answer anywhere is best
        value = float(np.nextafter(margin[0], -np.inf))
    elif answered == len(margin) or not np.isfinite(margin[answered]):
        value = float(margin[answered - 1])
    else:
        value = float(margin[answered - 1] + margin[answered]) / 2
    return NoAnswerThreshold(value, frozenset(examples.ids))
