"""SQuAD 1.1 and 2.0 scores, equal to those of the official scripts; every text is normalised only once."""

import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import FloatArray, IntArray

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

Golds = Mapping[str, Sequence[str]]
"""Gold answers by question id; an empty list if the question has no answer."""

SHOWN = ("f1", "exact", "exact_match", "HasAns_f1", "NoAns_f1")
"""The metrics of question answering that tables show; there is no room for all."""


def normalize_answer(text: str) -> str:
    """The text in lower case, without punctuation, articles and extra white space, as the official scripts do.

    Example:
        >>> normalize_answer("The  Cat's  pyjamas!")
        'cats pyjamas'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


@dataclass(frozen=True, slots=True)
class QuestionScores:
    """The scores of every question, before averaging.

    Attributes:
        ids: (questions,) in the order of the golds.
        exact: (questions,) 1 where a gold answer was given exactly.
        f1: (questions,) best word overlap with a gold answer.
        answerable: (questions,) whether there is a gold answer.
        answered: (questions,) whether the prediction is not empty.
        given: (questions,) whether there is a prediction; without one a question scores 0, even if it has no answer.
        missing: ids without a prediction.
        extra: ids of predictions that are not among the golds; these are ignored.
    """

    ids: list[str]
    exact: FloatArray
    f1: FloatArray
    answerable: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    given: NDArray[np.bool_]
    missing: list[str]
    extra: list[str]


def score_questions(
    golds: Golds,
    predictions: Mapping[str, str],
    *,
    version: Literal[1, 2] = 2,
    comparison: "AnswerComparison | None" = None,
) -> QuestionScores:
    """Score every question by the rules of SQuAD 2.0 or 1.1.

    Args:
        golds: gold answers.
        predictions: answers by question id.
        version: of SQuAD.
        comparison: a cache to share between models that answer the same questions; None makes a new one.

    Raises:
        BertVisionError: no prediction is for any of the golds.
    """
    check_same_questions(golds, predictions)
    comparison = comparison or AnswerComparison()
    return score_each(golds, predictions, comparison.version2 if version == 2 else comparison.version1)


def check_same_questions(golds: Golds, predictions: Mapping[str, str]) -> None:
    """Refuse predictions that are all for other questions.

    Raises:
        BertVisionError: no prediction is for any of the golds.
    """
    if golds and not any(key in predictions for key in golds):
        raise BertVisionError(
            f"none of the {len(predictions):,} predictions is for one of the {len(golds):,} questions. "
            f"Expected ids such as '{next(iter(golds))}'. Is this the right pair of files?"
        )


def score_each(
    golds: Golds, predictions: Mapping[str, str], compare: Callable[[str, Sequence[str]], tuple[float, float]]
) -> QuestionScores:
    """Score every question by `compare`, which gets a prediction and the golds and returns exact match and F1."""
    exact = np.zeros(len(golds))
    f1 = np.zeros(len(golds))
    for row, (key, answers) in enumerate(golds.items()):
        prediction = predictions.get(key)
        if prediction is not None:
            exact[row], f1[row] = compare(prediction, answers)
    return QuestionScores(
        ids=list(golds),
        exact=exact,
        f1=f1,
        answerable=np.fromiter((bool(answers) for answers in golds.values()), np.bool_, count=len(golds)),
        answered=np.fromiter((bool(predictions.get(key)) for key in golds), np.bool_, count=len(golds)),
        given=np.fromiter((key in predictions for key in golds), np.bool_, count=len(golds)),
        missing=[key for key in golds if key not in predictions],
        extra=[key for key in predictions if key not in golds],
    )


def squad2_metrics(scores: QuestionScores, rows: IntArray | None = None) -> dict[str, float]:
    """The official means in percent over all questions, or those at `rows`; without the means of empty parts."""
    metrics: dict[str, float] = {}
    chosen = np.arange(len(scores.ids)) if rows is None else rows
    for prefix, belongs in _parts(scores).items():
        part = chosen[belongs[chosen]]
        if len(part):
            metrics[f"{prefix}exact"] = 100.0 * float(scores.exact[part].mean())
            metrics[f"{prefix}f1"] = 100.0 * float(scores.f1[part].mean())
            metrics[f"{prefix}total"] = len(part)
    return metrics


def weighted_squad2(scores: QuestionScores, counts: FloatArray) -> dict[str, FloatArray]:
    """The official means by name, (draws,) each, if question q counts `counts[draw, q]` times, (draws, questions)."""
    parts = {prefix: part for prefix, part in _parts(scores).items() if part.any()}
    columns = np.stack([value * part for part in parts.values() for value in (1.0, scores.exact, scores.f1)], axis=1)
    totals = iter((counts @ columns).T)  # one matrix product for all means
    means: dict[str, FloatArray] = {}
    with np.errstate(invalid="ignore"):  # a draw may have no question of a part
        for prefix in parts:
            size = next(totals)
            means |= {f"{prefix}{name}": 100.0 * next(totals) / size for name in ("exact", "f1")}
    return means


def _parts(scores: QuestionScores) -> dict[str, NDArray[np.bool_]]:
    """Masks of all questions, those with an answer and those without, by the prefix of their metrics."""
    return {"": np.ones(len(scores.ids), dtype=np.bool_), "HasAns_": scores.answerable, "NoAns_": ~scores.answerable}


def apply_threshold(scores: QuestionScores, no_answer: FloatArray, threshold: float) -> QuestionScores:
    """The scores if all questions with a no-answer value above the threshold had the answer ""."""
    silent = no_answer > threshold
    value = (scores.given & ~scores.answerable).astype(np.float64)  # of an empty answer
    return replace(
        scores,
        exact=np.where(silent, value, scores.exact),
        f1=np.where(silent, value, scores.f1),
        answered=scores.answered & ~silent,
    )


def cut_totals(
    scores: QuestionScores, values: FloatArray, order: IntArray, counts: FloatArray | None = None
) -> FloatArray:
    """The sum of `values` if only the first 0, 1, 2 … questions of `order` are answered, (questions + 1,).

    Compared with empty answers everywhere, answering a question gains its value if there is a gold answer, and loses 1
    if there is none.

    Args:
        scores: scores of every question.
        values: (questions,) `exact` or `f1` of these scores.
        order: (questions,) numbers of the questions, in the order in which they are answered.
        counts: (questions,) weight of every question; None weighs all equally.
    """
    weights = np.ones(len(values)) if counts is None else counts
    gains = weights * np.where(scores.answerable, values, np.where(scores.answered, -1.0, 0.0))
    unanswered = float(weights[scores.given & ~scores.answerable].sum())
    return np.cumsum(np.concatenate([[unanswered], gains[order]]))


def best_threshold(scores: QuestionScores, values: FloatArray, no_answer: Mapping[str, float]) -> tuple[float, float]:
    """The best mean of `values` in percent over all no-answer thresholds, and its threshold, as the official script.

    The threshold is the no-answer value of the last question answered. Questions with equal values are answered one by
    one, in the order of `no_answer`.
    """
    limits = no_answer_array(scores.ids, no_answer)
    place = {key: number for number, key in enumerate(no_answer)}
    places = np.array([place[key] for key in scores.ids])
    order = np.lexsort((places, limits))
    totals = cut_totals(scores, values, order)
    answered = int(np.argmax(totals))  # of equal totals the first, as in the official search
    return 100.0 * float(totals[answered]) / len(values), float(limits[order[answered - 1]]) if answered else 0.0


def no_answer_array(ids: Sequence[str], no_answer: Mapping[str, float]) -> FloatArray:
    """No-answer values in the order of `ids`.

    Raises:
        BertVisionError: an id has no value.
    """
    absent = [key for key in ids if key not in no_answer]
    if absent:
        raise BertVisionError(
            f"{len(absent):,} of {len(ids):,} questions have no no-answer value, first '{absent[0]}'. "
            "Expected a value for every question."
        )
    return np.array([no_answer[key] for key in ids], dtype=np.float64)


@final
class AnswerComparison:
    """Compares answers with golds; caches the normal form of every text and the result of every comparison."""

    def __init__(self) -> None:
        self._normalised: dict[str, tuple[str, dict[str, int], int]] = {}
        self._compared: dict[tuple[str, ...], tuple[float, float]] = {}  # models of one encoder often agree

    def version2(self, prediction: str, golds: Sequence[str]) -> tuple[float, float]:
        """Exact match and F1 as in 2.0: golds that normalise to "" do not count; if none is left, "" is right."""
        counting = [gold for gold in golds if self._normalise(gold)[0]]
        if not counting:
            empty = float(not self._normalise(prediction)[0])
            return empty, empty
        return self.version1(prediction, counting)

    def version1(self, prediction: str, golds: Sequence[str]) -> tuple[float, float]:
        """Exact match and F1 as in 1.1, each with the gold that fits best."""
        texts = (prediction, *golds)
        result = self._compared.get(texts)
        if result is None:
            result = self._compared[texts] = self._compare(prediction, golds)
        return result

    def _compare(self, prediction: str, golds: Sequence[str]) -> tuple[float, float]:
        normal, words, total = self._normalise(prediction)
        exact = f1 = 0.0
        for gold in golds:
            gold_normal, gold_words, gold_total = self._normalise(gold)
            if normal == gold_normal:
                exact = 1.0
            same = sum(min(count, gold_words[word]) for word, count in words.items() if word in gold_words)
            if same:
                precision, recall = same / total, same / gold_total
                f1 = max(f1, 2 * precision * recall / (precision + recall))
        return exact, f1

    def _normalise(self, text: str) -> tuple[str, dict[str, int], int]:
        """The normal form of a text, how often each word occurs in it, and the number of words."""
        entry = self._normalised.get(text)
        if entry is None:
            normal = normalize_answer(text)
            words = normal.split()
            counts: dict[str, int] = {}
            for word in words:  # answers are short: a Counter takes several times as long
                counts[word] = counts.get(word, 0) + 1
            entry = self._normalised[text] = (normal, counts, len(words))
        return entry
