"""Start and end scores of tokens → answers with probabilities, as in transformers' former pipeline."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertvision.evaluation.decode import Scores, SpanDecoder, SpanPredictions
from bertvision.evaluation.ensemble import token_log_probabilities
from bertvision.evaluation.outputs import SpanScores
from bertvision.packs.card import PackCard
from bertvision.tasks.examples import Questions
from bertvision.tasks.windows import Windows

FITTED_LIMIT = 30
"""Maximum number of tokens in an answer where the pack's threshold decides: it was fitted with this limit."""

COMPARED = 20
"""Minimum number of candidate answers to a question: several may become the same when widened to whole words."""

UNSPACED = ("CJK", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
"""Prefixes of the Unicode names of characters of scripts without spaces between words."""


class Span(NamedTuple):
    """An answer: characters `start` to `end` (exclusive) of its context, and its probability."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class SpanAnswers:
    """A pack's answers to several questions.

    Attributes:
        spans: (questions,) the most probable answers to each, best first.
        null: (questions,) probability of "no answer": the smallest over the question's windows.
        silent: (questions,) whether the margin of "no answer" is above the pack's threshold; without a threshold,
            whether there is no legal span.
    """

    spans: list[list[Span]]
    null: list[float]
    silent: list[bool]


def decode_answers(  # noqa: PLR0913 - what answers depend on, by keyword
    card: PackCard,
    windows: Windows,
    questions: Questions,
    scores: SpanScores,
    *,
    best: int,
    limit: int,
    whole_words: bool = True,
) -> SpanAnswers:
    """The best answers to every question.

    The probability of an answer is the product of the probabilities of its first and its last token. Each is a softmax
    over the context's tokens in the window and the window's first token, which stands for "no answer".

    Args:
        card: card of the pack, with its threshold.
        windows: windows of the questions.
        questions: questions; gold answers are not needed.
        scores: scores of every token.
        best: maximum number of answers to each question.
        limit: maximum number of tokens in an answer.
        whole_words: widen answers to whole words; of those that become the same, the most probable is kept.
    """
    decoder = SpanDecoder(windows, limit=limit, best=max(best, COMPARED))
    excluded = ~_may_answer(windows)
    start, end = (_log_probabilities(column, excluded, windows) for column in (scores.start, scores.end))
    decoded = decoder.decode(start, end)
    margin = decoder.decode(scores.start, scores.end).margin
    silent = np.isposinf(margin) if card.threshold is None else margin > card.threshold
    index = questions.context_index.tolist()
    contexts = [questions.contexts[number] for number in index]
    spans = [_spans(decoded, row, context, best, whole_words) for row, context in enumerate(contexts)]
    return SpanAnswers(spans, np.exp(decoded.null).tolist(), silent.tolist())


def _may_answer(windows: Windows) -> NDArray[np.bool_]:
    """(tokens,) True for the first token of every window and for the tokens of its context."""
    place = np.arange(len(windows.ids)) - np.repeat(windows.bounds[:-1], windows.lengths)
    begin, end = (np.repeat(windows.context[:, side], windows.lengths) for side in (0, 1))
    allowed: NDArray[np.bool_] = (place == 0) | ((place >= begin) & (place < end))
    return allowed


def _log_probabilities(scores: Scores, excluded: NDArray[np.bool_], windows: Windows) -> Scores:
    return token_log_probabilities(np.where(excluded, np.float32(-np.inf), scores), windows.bounds)


def _spans(decoded: SpanPredictions, row: int, context: str, best: int, whole_words: bool) -> list[Span]:  # noqa: FBT001
    """The `best` different answers to the question at `row`, without surrounding spaces, best first."""
    found: dict[tuple[int, int], float] = {}
    columns: Sequence[list[float]] = [column[row].tolist() for column in (decoded.scores, decoded.starts, decoded.ends)]
    for score, first, last in zip(*columns, strict=True):
        if score == -np.inf:  # there are no more legal spans
            break
        start, end = strip_span(context, int(first), int(last))
        if whole_words:
            start, end = widen_span(context, start, end)
        found.setdefault((start, end), float(np.exp(score)))
        if len(found) == best:
            break
    return [Span(start, end, score) for (start, end), score in found.items()]


def strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The span without surrounding spaces, which some tokenizers count as part of a token."""
    begin = start + len(text[start:end]) - len(text[start:end].lstrip())
    return begin, begin + len(text[start:end].strip())


def widen_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The span widened so that it cuts no word: all letters, digits and combining marks of its words are inside."""
    while 0 < start < end and _joined(text[start - 1], text[start]):
        start -= 1
    while start < end < len(text) and _joined(text[end - 1], text[end]):
        end += 1
    return start, end


def _joined(left: str, right: str) -> bool:
    """Whether two neighbouring characters belong to one word."""
    if not (_in_word(left) and _in_word(right)):
        return False
    return _is_mark(right) or not (_is_unspaced(left) or _is_unspaced(right))  # a mark is part of the letter before it


def _in_word(character: str) -> bool:
    return character.isalnum() or _is_mark(character)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


def _is_unspaced(character: str) -> bool:
    return unicodedata.name(character, "").startswith(UNSPACED) and not character.isdecimal()
