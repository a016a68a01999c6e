"""The usual n-best loop over start and end scores, window by window: the baseline of bench_decoding.py."""

import numpy as np

from bertvision.evaluation.decode import Scores
from bertvision.tasks.windows import Windows

LIMIT, BEST = 30, 20
"""Maximum tokens of an answer, and number of best starts, ends and answers."""


def plain_n_best(windows: Windows, start: Scores, end: Scores) -> list[dict[str, object]]:
    """The best answers of each question with probabilities, from the 20 best starts and ends of each window.

    As in the usual scripts, fewer spans are compared than in ours: an answer with the 21st best start is lost.
    """
    questions: list[list[dict[str, float]]] = [[] for _ in range(int(windows.example[-1]) + 1)]
    nulls = [np.inf] * len(questions)
    for window in range(len(windows)):
        begin, stop = windows.bounds[window], windows.bounds[window + 1]
        start_scores, end_scores = start[begin:stop], end[begin:stop]
        offsets = windows.offsets[windows.context_token[window] :]
        first_context, after_context = windows.context[window]
        example = windows.example[window]
        nulls[example] = min(nulls[example], start_scores[0] + end_scores[0])
        starts = np.argsort(start_scores)[-1 : -BEST - 1 : -1].tolist()
        ends = np.argsort(end_scores)[-1 : -BEST - 1 : -1].tolist()
        for first in starts:
            for last in ends:
                if not first_context <= first < after_context or not first_context <= last < after_context:
                    continue
                if last < first or last - first + 1 > LIMIT:
                    continue
                questions[example].append(
                    {
                        "start": offsets[first - first_context][0],
                        "end": offsets[last - first_context][1],
                        "score": start_scores[first] + end_scores[last],
                    }
                )
    answers: list[dict[str, object]] = []
    for candidates, null in zip(questions, nulls, strict=True):
        ranked = sorted(candidates, key=lambda candidate: candidate["score"], reverse=True)[:BEST]
        scores = np.array([null, *(candidate["score"] for candidate in ranked)])
        exponents = np.exp(scores - scores.max())
        answers.append({"null": null, "best": ranked, "probabilities": exponents / exponents.sum()})
    return answers
