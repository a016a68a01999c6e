"""The scorer of the BERTVision paper, for comparing with its tables only.

Start and end are chosen apart from each other; an end before the start counts as "no answer"; of a question's windows
the one with the largest p(start) · p(end) wins, windows without an answer included; and word pieces are compared as
they are, without the official normalisation.
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
    # the most confident window of each question: sorted by question, then by confidence, the last of each
    order = np.lexsort((confidence, windows.example))
    best = order[np.flatnonzero(np.diff(windows.example[order], append=-1))]
    inside = (first[best] >= windows.context[best, 0]) & (last[best] < windows.context[best, 1])
    answered = inside & (last[best] >= first[best])
    answers = dict.fromkeys(examples.ids, "")
    chosen = best[answered]
    for window, begin, stop in zip(chosen, *windows.characters(chosen, first[chosen], last[chosen]), strict=True):
        example = int(windows.example[window])
        context = examples.contexts[int(examples.context_index[example])]
        answers[examples.ids[example]] = context[int(begin) : int(stop)]
    return answers


def score_questions_paper(golds: Golds, predictions: Mapping[str, str], tokenizer: TextTokenizer) -> QuestionScores:
    """Every question's scores on word pieces, best of all golds; a missing prediction scores 0."""
    check_same_questions(golds, predictions)
    texts = dict.fromkeys([*(text for answers in golds.values() for text in answers), *predictions.values()])
    pieces = dict(zip(texts, tokenizer.pieces(list(texts)), strict=True))

    def compare(prediction: str, answers: Sequence[str]) -> tuple[float, float]:
        given = pieces[prediction]
        wanted = [pieces[answer] for answer in answers] or [[]]
        return float(given in wanted), max(_overlap(gold, given) for gold in wanted)

    return score_each(golds, predictions, compare)


def _argmax(windows: Windows, scores: Scores) -> tuple[IntArray, Scores]:
    """Best token of every window, counted inside it, and its softmax probability."""
    begins = windows.bounds[:-1]
    largest = np.maximum.reduceat(scores, begins)
    lengths = windows.lengths
    hits = np.flatnonzero(scores == np.repeat(largest, lengths))
    window = np.repeat(np.arange(len(windows)), lengths)[hits]
    first_hit = hits[np.flatnonzero(np.diff(window, prepend=-1))]  # the first of equals
    total = np.add.reduceat(np.exp(scores - np.repeat(largest, lengths)), begins)
    return first_hit - begins, (1.0 / total).astype(np.float32)


def _overlap(gold: Sequence[str], prediction: Sequence[str]) -> float:
    if not gold or not prediction:
        return float(gold == prediction)
    same = sum((Counter(gold) & Counter(prediction)).values())
    return 2.0 * same / (len(gold) + len(prediction))
