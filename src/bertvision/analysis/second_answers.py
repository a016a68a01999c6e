"""What a wrong answer looks like: nothing where there is one, or the right one just behind."""

from dataclasses import dataclass

import numpy as np

from bertvision.analysis.checks import check_rows, share
from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import SpanPredictions
from bertvision.evaluation.squad_metric import normalize_answer, score_questions
from bertvision.tasks.examples import Questions


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondAnswers:
    """Errors, and how often the second most likely answer would have been right; right means exactly.

    Shares are 0 to 1; None where there is nothing to share.

    Attributes:
        questions: how many there are.
        has_answer_errors: questions with an answer that were answered wrongly.
        predicted_empty: those of them that were answered with nothing.
        predicted_empty_share: the part of `has_answer_errors` that they are.
        first_right: questions whose first answer is right.
        first_right_has_answer_share: the part of them that has an answer.
        first_wrong: all others.
        second_right: those of them whose second answer is right.
        second_right_share: the part of `first_wrong` that they are.
        second_right_has_answer_share: the part of `second_right` that has an answer.
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
    """Errors of the answers at a threshold, and what the second answers would have changed.

    Raises:
        BertVisionError: there are predictions for more or fewer questions, or fewer than two answers for each.
    """
    golds = examples.golds()
    second_texts = second_answer_texts(examples, predictions, threshold=threshold)
    first = score_questions(golds, predictions.texts(examples, threshold))
    second = score_questions(golds, second_texts)
    right, has_answer = first.exact == 1.0, first.answerable
    missed = ~right & has_answer
    empty = missed & ~first.answered
    saved = ~right & (second.exact == 1.0)
    return SecondAnswers(
        questions=len(examples),
        has_answer_errors=int(missed.sum()),
        predicted_empty=int(empty.sum()),
        predicted_empty_share=share(int(empty.sum()), int(missed.sum())),
        first_right=int(right.sum()),
        first_right_has_answer_share=share(int((right & has_answer).sum()), int(right.sum())),
        first_wrong=int((~right).sum()),
        second_right=int(saved.sum()),
        second_right_share=share(int(saved.sum()), int((~right).sum())),
        second_right_has_answer_share=share(int((saved & has_answer).sum()), int(saved.sum())),
    )


def second_answer_texts(
    examples: Questions, predictions: SpanPredictions, *, threshold: float | None = 0.0
) -> dict[str, str]:
    """The second most likely answer of every question by id, "" for "no answer".

    "No answer" competes with its score less the threshold, so that it is first where the threshold says so; with a
    threshold of None it is no answer at all. Spans that read the same to the scorer are one answer. A question without
    a second answer keeps its first.

    Raises:
        BertVisionError: there are predictions for more or fewer questions, or fewer than two answers for each.
    """
    check_rows(len(examples), len(predictions.null), "predictions")
    if predictions.scores.shape[1] < 2:
        raise BertVisionError("predictions have one answer for each question; two or more are expected. Decode more.")
    first = predictions.texts(examples, threshold)
    silence = predictions.null - threshold if threshold is not None else np.full(len(examples), -np.inf)
    found = {}
    for row, (key, context) in enumerate(zip(examples.ids, examples.context_index.tolist(), strict=True)):
        taken = normalize_answer(first[key])
        text, score = first[key], -np.inf
        for place in np.flatnonzero(np.isfinite(predictions.scores[row])).tolist():
            span = slice(predictions.starts[row, place], predictions.ends[row, place])
            other = examples.contexts[context][span].strip()
            if normalize_answer(other) != taken:
                text, score = other, predictions.scores[row, place]
                break
        found[key] = "" if first[key] and silence[row] > score else text
    return found
