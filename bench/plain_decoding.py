"""The usual n-best loop over start and end scores, window by window: the baseline of bench_decoding.py."""

import numpy as np

from bertvision.evaluation.decode import Scores
from bertvision.tasks.windows import Windows

LIMIT, BEST = 30, 20
"""Most tokens of an answer, and how many starts, ends and answers are kept."""


def plain_n_best(windows: Windows, start: Scores, end: Scores) -> list[dict[str, object]]:
    """Pairs of the 20 best starts and 20 best ends of every window, sorted, merged by question, with probabilities.

    It compares fewer spans than we do (an answer whose start is 21st is lost), as the usual scripts do.
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
