"""The scorer of the BERTVision paper, only for comparison with its tables.

Start and end are chosen independently among all tokens of a window. An end before the start, or both on the first
token, count as "no answer"; other spans outside of the context do not, and are wrong. Of the windows of a question, the
one with the largest p(start) · p(end) decides, also if it has no answer. Word pieces are compared without the official
normalisation.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from bertvision.evaluation.decode import Scores, check_scores
from bertvision.evaluation.squad_metric import Golds, QuestionScores, check_same_questions, score_each
from bertvision.tasks.examples import IntArray, Questions
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows


def decode_paper(windows: Windows, start: Scores, end: Scores, examples: Questions) -> dict[str, str]:
    """The paper's answer to every question, by id.

    Args:
        windows: the windows of `examples`.
        start: (tokens,) score of every token of `windows` as an answer's first.
        end: (tokens,) the same for its last.
        examples: the questions.
    """
    check_scores(windows, start, end)
    first, start_probability = _argmax(windows, start)
    last, end_probability = _argmax(windows, end)
    confidence = start_probability * end_probability
    # sorted by question, then by confidence: a question's last window is its most confident, of equal ones the first
    order = np.lexsort((-np.arange(len(windows)), confidence, windows.example))
    best = order[np.flatnonzero(np.diff(windows.example[order], append=-1))]
    answers = dict.fromkeys(examples.ids, "")
    for window in best[(last[best] >= first[best]) & (last[best] > 0)].tolist():
        row = int(windows.example[window])
        answers[examples.ids[row]] = _text(windows, examples, window, int(first[window]), int(last[window]))
    return answers


def score_questions_paper(golds: Golds, predictions: Mapping[str, str], tokenizer: TextTokenizer) -> QuestionScores:
    """Exact match and F1 of word pieces, each with the gold answer that fits best; a missing prediction scores 0."""
    check_same_questions(golds, predictions)
    texts = dict.fromkeys([*(text for answers in golds.values() for text in answers), *predictions.values()])
    pieces = dict(zip(texts, tokenizer.pieces(list(texts)), strict=True))

    def compare(prediction: str, answers: Sequence[str]) -> tuple[float, float]:
        predicted = pieces[prediction]
        gold_pieces = [pieces[answer] for answer in answers] or [[]]
        return float(predicted in gold_pieces), max(_overlap(gold, predicted) for gold in gold_pieces)

    return score_each(golds, predictions, compare)


def _argmax(windows: Windows, scores: Scores) -> tuple[IntArray, Scores]:
    """For every window, the place of its best token in it and that token's softmax probability."""
    begins = windows.bounds[:-1]
    largest = np.maximum.reduceat(scores, begins)
    lengths = windows.lengths
    hits = np.flatnonzero(scores == np.repeat(largest, lengths))
    window = np.repeat(np.arange(len(windows)), lengths)[hits]
    first_hit = hits[np.flatnonzero(np.diff(window, prepend=-1))]  # of equal scores the first
    total = np.add.reduceat(np.exp(scores - np.repeat(largest, lengths)), begins)
    return first_hit - begins, (1.0 / total).astype(np.float32)


def _text(windows: Windows, examples: Questions, window: int, first: int, last: int) -> str:
    """The text of a span of tokens. Offsets of the question are unknown: one that begins in it has all of it."""
    row = int(windows.example[window])
    begin, end = windows.context[window].tolist()
    parts = [f"[CLS] {examples.questions[row]} [SEP]"] if first < begin else []
    inside = np.array([[window], [max(first, begin)], [min(last, end - 1)]])
    if inside[1, 0] <= inside[2, 0]:
        (start,), (stop,) = windows.characters(inside[0], inside[1], inside[2])
        parts.append(examples.contexts[int(examples.context_index[row])][int(start) : int(stop)])
    if last >= end:
        parts.append("[SEP]")
    return " ".join(parts)


def _overlap(gold: Sequence[str], prediction: Sequence[str]) -> float:
    """F1 of two lists of word pieces; without any on one side, 1 if both are empty, else 0."""
    if not gold or not prediction:
        return float(gold == prediction)
    same = sum((Counter(gold) & Counter(prediction)).values())
    return 2.0 * same / (len(gold) + len(prediction))
