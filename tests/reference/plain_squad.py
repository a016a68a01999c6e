"""The official SQuAD 2.0 evaluation in plain Python, one question and one pair of texts at a time, from its definition.

One departure, which is ours: a question without a prediction scores 0 wherever it counts, where the official script
leaves it out of the means. With all predictions given the two are the same.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

ARTICLE = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = frozenset(string.punctuation)


def plain_normal(text: str) -> str:
    """Lower case; no ASCII punctuation; no articles; single blanks."""
    kept = "".join(character for character in text.lower() if character not in PUNCTUATION)
    return " ".join(ARTICLE.sub(" ", kept).split())


def plain_exact(gold: str, prediction: str) -> float:
    """1 where the two are the same once normalised."""
    return 1.0 if plain_normal(gold) == plain_normal(prediction) else 0.0


def plain_f1(gold: str, prediction: str) -> float:
    """Harmonic mean of precision and recall of words; where either text has none, 1 if neither has."""
    wanted, given = plain_normal(gold).split(), plain_normal(prediction).split()
    if not wanted or not given:
        return 1.0 if wanted == given else 0.0
    same = sum((Counter(wanted) & Counter(given)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(given), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def plain_squad2(
    golds: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    no_answer: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """The values that the official script prints; the `best_*` ones only where there are no-answer values."""
    exact, f1 = {}, {}
    for key, answers in golds.items():
        if key in predictions:
            counting = [answer for answer in answers if plain_normal(answer)] or [""]
            exact[key] = max(plain_exact(answer, predictions[key]) for answer in counting)
            f1[key] = max(plain_f1(answer, predictions[key]) for answer in counting)
    probabilities = dict.fromkeys(golds, 0.0) if no_answer is None else no_answer
    final_exact = _with_threshold(exact, golds, probabilities, threshold)
    final_f1 = _with_threshold(f1, golds, probabilities, threshold)

    values: dict[str, float] = {}
    parts = {
        "": list(golds),
        "HasAns_": [key for key in golds if golds[key]],
        "NoAns_": [key for key in golds if not golds[key]],
    }
    for prefix, keys in parts.items():
        if keys:
            values[f"{prefix}exact"] = 100.0 * sum(final_exact.get(key, 0.0) for key in keys) / len(keys)
            values[f"{prefix}f1"] = 100.0 * sum(final_f1.get(key, 0.0) for key in keys) / len(keys)
            values[f"{prefix}total"] = len(keys)
    if no_answer is not None:
        for name, scores in (("exact", exact), ("f1", f1)):
            best, place = _search(scores, golds, predictions, no_answer)
            values[f"best_{name}"], values[f"best_{name}_thresh"] = best, place
    return values


def _with_threshold(
    scores: Mapping[str, float], golds: Mapping[str, Sequence[str]], no_answer: Mapping[str, float], threshold: float
) -> dict[str, float]:
    final = {}
    for key, score in scores.items():
        silent = no_answer[key] > threshold
        final[key] = (0.0 if golds[key] else 1.0) if silent else score
    return final


def _search(
    scores: Mapping[str, float],
    golds: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    no_answer: Mapping[str, float],
) -> tuple[float, float]:
    """From silence everywhere, answer one question after the other, the surest first; keep the first best place."""
    current = float(sum(1 for key in scores if not golds[key]))
    best, place = current, 0.0
    for key in sorted(no_answer, key=lambda key: no_answer[key]):  # equal ones stay in the order of the file
        if key not in scores:
            continue
        if golds[key]:
            current += scores[key]
        elif predictions[key]:
            current -= 1
        if current > best:
            best, place = current, no_answer[key]
    return 100.0 * best / len(golds), place
