import json
from dataclasses import asdict

import numpy as np
import pytest

from bertvision.analysis.context_lengths import context_lengths, context_tokens
from bertvision.errors import BertVisionError
from bertvision.evaluation.squad_metric import score_questions
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, build_windows
from conftest import make_questions

CONTEXTS = ["ada", "ada wrote", "ada wrote it all", "ada wrote it all by herself then"]  # 1, 2, 4, 7 words
EXAMPLES = make_questions(*(("who", context, "ada") for context in CONTEXTS))
TOKENS = np.array([10, 20, 40, 70])
WRONG = "wrote"
FIRST = score_questions(EXAMPLES.golds(), {"q0": "ada", "q1": "ada", "q2": "ada", "q3": WRONG})
SECOND = score_questions(EXAMPLES.golds(), {"q0": "ada", "q1": WRONG, "q2": WRONG, "q3": "ada"})


def test_lengths_are_means_over_what_each_model_got_right_and_what_it_alone_did() -> None:
    found = context_lengths(EXAMPLES, TOKENS, first=FIRST, second=SECOND, resamples=100)
    means = {
        name: (group["count"], group["tokens"]["mean"], group["words"]["mean"]) for name, group in asdict(found).items()
    }
    assert means == {
        "all": (4, 35.0, 3.5),
        "first": (3, 70 / 3, 7 / 3),
        "second": (2, 40.0, 4.0),
        "first_only": (2, 30.0, 3.0),
        "second_only": (1, 70.0, 7.0),
    }


def test_medians_and_intervals_go_with_the_means() -> None:
    found = context_lengths(EXAMPLES, TOKENS, first=FIRST, second=SECOND, resamples=200)
    assert found.first.tokens is not None
    assert found.first.words is not None
    assert (found.first.tokens.median, found.first.words.median) == (20.0, 2.0)
    assert 10.0 <= found.first.tokens.interval.low < 70 / 3 < found.first.tokens.interval.high <= 40.0


def test_a_context_counts_for_every_question_about_it() -> None:
    examples = make_questions(*(("who", context, "ada") for context in (*CONTEXTS[:1] * 3, CONTEXTS[2])))
    scores = score_questions(examples.golds(), dict.fromkeys(examples.ids, "ada"))
    found = context_lengths(examples, np.array([1, 1, 1, 4]), first=scores, second=scores, resamples=100)
    assert found.all.words is not None
    assert found.all.words.mean == 1.75


def test_a_group_without_questions_has_no_length_and_it_turns_into_json() -> None:
    found = context_lengths(EXAMPLES, TOKENS, first=FIRST, second=FIRST, resamples=100)
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["first_only"] == {
        "count": 0,
        "tokens": None,
        "words": None,
    }


def test_tokens_are_those_of_the_whole_context_however_many_windows_it_has(tokenizer: TextTokenizer) -> None:
    contexts = [" ".join(["word"] * count) for count in (5, 60, 23)]
    examples = make_questions(*(("who", context, None) for context in contexts))
    windows = build_windows(TASKS["squad2"], examples, tokenizer, WindowOptions(length=32, stride=8, question=8))
    assert len(windows) > 3
    assert context_tokens(windows).tolist() == [5, 60, 23]


def test_columns_of_other_questions_are_refused() -> None:
    with pytest.raises(BertVisionError, match="3 context lengths for 4 examples"):
        context_lengths(EXAMPLES, TOKENS[:3], first=FIRST, second=SECOND)
    other = score_questions({"x": ["ada"]}, {"x": "ada"})
    with pytest.raises(BertVisionError, match="the second model's scores are for 1 questions; 4 are expected"):
        context_lengths(EXAMPLES, TOKENS, first=FIRST, second=other)
