"""SQuAD 2.0 scores with the best-threshold search against a plain reimplementation of the official algorithm."""

import sys
from pathlib import Path

import numpy as np

from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.evaluation.score import score_squad2
from bertvision.tasks.examples import Questions
from data import questions, save

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from reference.plain_squad import plain_squad2

QUESTIONS = 12_000


def made_up_answers(examples: Questions) -> dict[str, str]:
    """Predictions as of a mediocre model: gold answers, other parts of the context, and no answer."""
    random = np.random.default_rng(0)
    answers = {}
    for row, key in enumerate(examples.ids):
        context = examples.contexts[int(examples.context_index[row])]
        golds = examples.answers[row]
        kind = random.random()
        if kind < 0.35:
            answers[key] = ""
        elif kind < 0.7 and golds:
            answers[key] = golds[0].text
        else:
            start = golds[0].start if golds and kind < 0.85 else int(random.integers(len(context)))
            answers[key] = context[start : start + int(random.integers(5, 60))].strip()
    return answers


def main() -> None:
    """Measure, and write the record."""
    examples = questions(QUESTIONS)
    golds, answers = examples.golds(), made_up_answers(examples)
    # dev has at least three gold answers per question and train has one, so repeat it as if annotators agreed
    golds = {key: texts * 3 for key, texts in golds.items()}
    values = np.random.default_rng(1).random(len(examples))
    no_answer = dict(zip(examples.ids, values.tolist(), strict=True))
    ours = score_squad2(golds, answers, no_answer=no_answer).values
    theirs = plain_squad2(golds, answers, no_answer)
    if any(abs(ours[name] - value) > 1e-9 for name, value in theirs.items()):
        raise AssertionError("the scores are not the same")
    timings = side_by_side(
        {
            "ours": lambda: score_squad2(golds, answers, no_answer=no_answer),
            "official algorithm, plain": lambda: plain_squad2(golds, answers, no_answer),
        }
    )
    claim = Claim(
        name="speed-scoring",
        what="SQuAD 2.0 scores with the best-threshold search, equal values",
        command="python bench/bench_scoring.py",
        size=f"{len(examples):,} questions, 3 golds each",
        targets={"official algorithm, plain": 3.0},
    )
    save(claim, timings)


if __name__ == "__main__":
    main()
