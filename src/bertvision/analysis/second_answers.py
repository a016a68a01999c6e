"""Errors in answering: empty answers where there is one, and right answers in second place."""

from dataclasses import dataclass

import numpy as np

from bertvision.analysis.checks import check_rows, share
from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import SpanPredictions
from bertvision.evaluation.squad_metric import normalize_answer, score_questions
from bertvision.tasks.examples import Questions


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondAnswers:
    """Numbers of errors, and of second answers that would have been right; right means an exact match.

    Shares are 0 to 1; None if the whole is 0.

    Attributes:
        questions: number of questions.
        has_answer_errors: questions with an answer that were answered wrongly.
        predicted_empty: those of `has_answer_errors` that were answered with "".
        predicted_empty_share: `predicted_empty` / `has_answer_errors`.
        first_right: questions whose first answer is right.
        first_right_has_answer_share: the share of `first_right` that has an answer.
        first_wrong: questions whose first answer is wrong.
        second_right: those of `first_wrong` whose second answer is right.
        second_right_share: `second_right` / `first_wrong`.
        second_right_has_answer_share: the share of `second_right` that has an answer.
    """

    questions: int
    has_answer_errors: int
    predicted_empty: int
    predicted_empty_share: float | None
    first_right: int
    first_right_has_answer_share: float | None
    first_wrong: int
    second_right: int
    second_right_share: float | None
    second_right_has_answer_share: float | None


def second_answers(
    examples: Questions, predictions: SpanPredictions, *, threshold: float | None = 0.0
) -> SecondAnswers:
    """Count the errors at a no-answer threshold, and the second answers that are right.

    Raises:
        BertVisionError: there are predictions for more or fewer questions, or fewer than two answers for each.
    """
    golds = examples.golds()
    second_texts = second_answer_texts(examples, predictions, threshold=threshold)
    first = score_questions(golds, predictions.texts(examples, threshold))
    second = score_questions(golds, second_texts)
    right, has_answer = first.exact == 1.0, first.answerable
    errors = ~right & has_answer
    empty = errors & ~first.answered
    second_right = ~right & (second.exact == 1.0)
    return SecondAnswers(
        questions=len(examples),
        has_answer_errors=int(errors.sum()),
        predicted_empty=int(empty.sum()),
        predicted_empty_share=share(int(empty.sum()), int(errors.sum())),
        first_right=int(right.sum()),
        first_right_has_answer_share=share(int((right & has_answer).sum()), int(right.sum())),
        first_wrong=int((~right).sum()),
        second_right=int(second_right.sum()),
        second_right_share=share(int(second_right.sum()), int((~right).sum())),
        second_right_has_answer_share=share(int((second_right & has_answer).sum()), int(second_right.sum())),
    )


def second_answer_texts(
    examples: Questions, predictions: SpanPredictions, *, threshold: float | None = 0.0
) -> dict[str, str]:
    """The second most likely answer of every question by id, "" for "no answer".

    "No answer" is ranked by its score minus the threshold, so that it is first exactly where its margin exceeds the
    threshold; with a threshold of None it is left out. Spans with the same normalised text count as one answer. A
    question without a second answer keeps its first.

    Raises:
        BertVisionError: there are predictions for more or fewer questions, or fewer than two answers for each.
    """
    check_rows(len(examples), len(predictions.null), "predictions")
    if predictions.scores.shape[1] < 2:
        raise BertVisionError("predictions have one answer for each question; two or more are expected. Decode more.")
    first = predictions.texts(examples, threshold)
    no_answer = predictions.null - threshold if threshold is not None else np.full(len(examples), -np.inf)
    second = {}
    for row, (key, context) in enumerate(zip(examples.ids, examples.context_index.tolist(), strict=True)):
        normal_first = normalize_answer(first[key])
        text, score = first[key], -np.inf
        for place in np.flatnonzero(np.isfinite(predictions.scores[row])).tolist():
            span = slice(predictions.starts[row, place], predictions.ends[row, place])
            other = examples.contexts[context][span].strip()
            if normalize_answer(other) != normal_first:
                text, score = other, predictions.scores[row, place]
                break
        second[key] = "" if first[key] and no_answer[row] > score else text
    return second
