"""Our SQuAD scores against the official definition, written out plainly, and against numbers worked out by hand."""

import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertvision.errors import BertVisionError
from bertvision.evaluation.score import score_squad1, score_squad2
from bertvision.evaluation.squad_metric import normalize_answer
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import load_task
from close import FLOAT64
from reference.plain_squad import plain_normal, plain_squad2

ENGLISH = ("the", "The", "a", "an", "cat", "Cat's", "cat.", "dog", "1,000", "an_a", "-", "")
OTHER = ("thé", "naïve", "“cat”", "猫", "\N{EN DASH}")
texts = st.lists(st.sampled_from(ENGLISH + OTHER), max_size=4).map(" ".join)


@st.composite
def scored_questions(
    draw: st.DrawFn,
) -> tuple[dict[str, list[str]], dict[str, str], dict[str, float] | None, float]:
    """Golds, predictions (some missing, some extra), perhaps no-answer values in another order, and a threshold."""
    keys = [f"q{number}" for number in range(draw(st.integers(1, 8)))]
    golds = {key: draw(st.lists(texts, max_size=3)) for key in keys}
    given_keys = [keys[0], *(key for key in keys[1:] if draw(st.integers(0, 9)))]
    predictions = {key: draw(texts) for key in [*given_keys, "other"]}
    if draw(st.booleans()):
        return golds, predictions, None, 1.0
    no_answer = {key: draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])) for key in draw(st.permutations([*keys, "other"]))}
    return golds, predictions, no_answer, draw(st.sampled_from([-1.0, 0.25, 0.3, 1.0]))


def walked_normal(text: str) -> str:
    """Lower case, no ASCII punctuation, no words that are articles, single blanks; letters and digits make up words."""
    kept, word = "", ""
    for character in text.lower() + " ":
        if character in string.punctuation:
            continue
        if character.isalnum():
            word += character
        else:
            kept += (" " if word in {"a", "an", "the"} else word) + character
            word = ""
    return " ".join(kept.split())


@settings(max_examples=150, deadline=None)
@given(scored_questions())
def test_version_2_equals_the_plain_definition(
    case: tuple[dict[str, list[str]], dict[str, str], dict[str, float] | None, float],
) -> None:
    golds, predictions, no_answer, threshold = case
    ours = score_squad2(golds, predictions, no_answer=no_answer, threshold=threshold).values
    counts = {"missing": sum(key not in predictions for key in golds), "extra": 1}
    plain = plain_squad2(golds, predictions, no_answer, threshold)
    assert ours == pytest.approx(plain | counts, rel=FLOAT64, abs=FLOAT64)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=12) | texts)
@example("the\u0301 an")
@example("x\u00a0THE\u2009y\x1fa")
def test_normalisation_equals_a_walk_through_the_characters(text: str) -> None:
    assert normalize_answer(text) == plain_normal(text) == walked_normal(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat", "cat"),
        ("a an the", ""),
        ("theatre and another", "theatre and another"),
        ("a-b", "ab"),  # punctuation goes first, so this is no article
        ("the_cat", "thecat"),
        ("A.D. 1,000", "ad 1000"),
        ("Cat's", "cats"),
        ("“The” cat \N{EN DASH} now", "“ ” cat \N{EN DASH} now"),  # only ASCII punctuation is dropped
        ("École", "école"),
        ("thé", "thé"),
        ("the猫", "the猫"),  # one word, as no boundary stands inside it
        ("\tthe\ncat\u00a0", "cat"),
    ],
)
def test_normal_forms_worked_out_by_hand(text: str, normal: str) -> None:
    assert (normalize_answer(text), plain_normal(text)) == (normal, normal)


@pytest.mark.parametrize(
    ("golds", "prediction", "exact", "f1"),
    [
        (["the cat"], "Cat!", 1, 1),
        (["cat sat down"], "the cat sat", 0, 4 / 5),  # 2 of 2 words right, 2 of 3 found
        (["new york new york"], "new new new jersey", 0, 1 / 2),  # new counts twice: 2 of 4 and 2 of 4
        (["1901", "in 1901", "the year 1901"], "year 1901", 1, 1),
        (["red fox", "old red fox", "dog"], "old fox", 0, 4 / 5),
        (["café"], "cafe", 0, 0),
        (["café"], "CAFÉ", 1, 1),
        (["“cat”"], "cat", 0, 0),
        (["1990\N{EN DASH}95"], "199095", 0, 0),
        (["1990-95"], "199095", 1, 1),
        (["北京 大学"], "北京", 0, 2 / 3),
        (["cat"], "", 0, 0),
        (["cat"], "dog", 0, 0),
        (["The", "cat"], "the", 0, 0),  # a gold of nothing but an article does not count
        (["The"], "", 1, 1),  # and where there is no other, silence is right
        (["The"], "the", 1, 1),
        (["The"], "cat", 0, 0),
        ([], "", 1, 1),
        ([], "the", 1, 1),
        ([], "!?", 1, 1),
        ([], "cat", 0, 0),
    ],
)
def test_single_questions_of_version_2_worked_out_by_hand(
    golds: list[str], prediction: str, exact: float, f1: float
) -> None:
    for values in (score_squad2({"q": golds}, {"q": prediction}).values, plain_squad2({"q": golds}, {"q": prediction})):
        assert (values["exact"], values["f1"]) == pytest.approx((100 * exact, 100 * f1), rel=FLOAT64)


@pytest.mark.parametrize(
    ("golds", "prediction", "exact", "f1"),
    [
        (["The"], "the", 1, 0),  # version 1.1 has no rule for texts without words
        (["The", "cat"], "the", 1, 0),
        (["cat"], "", 0, 0),
        (["cat"], "a cat", 1, 1),
        (["cat sat down", "dog"], "the cat sat", 0, 4 / 5),
        (["red fox", "fox"], "Fox.", 1, 1),
    ],
)
def test_single_questions_of_version_1_worked_out_by_hand(
    golds: list[str], prediction: str, exact: float, f1: float
) -> None:
    values = score_squad1({"q": golds}, {"q": prediction}).values
    assert (values["exact_match"], values["f1"]) == pytest.approx((100 * exact, 100 * f1), rel=FLOAT64)


def test_the_values_of_version_1_are_means_over_all_questions() -> None:
    golds = {"q1": ["cat"], "q2": ["cat sat down"], "q3": ["dog"], "q4": ["fox"]}
    values = score_squad1(golds, {"q1": "the cat", "q2": "cat sat", "q3": "", "other": "x"}).values
    assert values == pytest.approx({"exact_match": 25, "f1": 45, "total": 4, "missing": 1, "extra": 1}, rel=FLOAT64)


GOLDS = {"q1": ["the cat"], "q2": ["old red fox"], "q3": [], "q4": [], "q5": ["dog"]}
PREDICTIONS = {"q1": "cat", "q2": "red fox", "q3": "", "q4": "hen", "q5": "hen"}


def test_the_values_of_version_2_worked_out_by_hand() -> None:
    assert score_squad2(GOLDS, PREDICTIONS).values == pytest.approx(
        {
            "exact": 40,  # q1, q3
            "f1": 56,  # and q2: 0.8
            "total": 5,
            "HasAns_exact": 100 / 3,
            "HasAns_f1": 60,
            "HasAns_total": 3,
            "NoAns_exact": 50,
            "NoAns_f1": 50,
            "NoAns_total": 2,
            "missing": 0,
            "extra": 0,
        },
        rel=FLOAT64,
    )


def test_the_best_thresholds_worked_out_by_hand() -> None:
    no_answer = {"q1": 0.1, "q2": 0.2, "q3": 0.9, "q4": 0.7, "q5": 0.3}
    # silence: 2; q1: 3; q2: 3 exact, 3.8 F1; q5: no gain; q4: one lost
    values = score_squad2(GOLDS, PREDICTIONS, no_answer=no_answer, threshold=0.5).values
    best = {name: value for name, value in values.items() if name.startswith("best")}
    expected = {"best_exact": 60, "best_exact_thresh": 0.1, "best_f1": 76, "best_f1_thresh": 0.2}
    assert best == pytest.approx(expected, rel=FLOAT64)
    assert (values["exact"], values["f1"]) == pytest.approx((60, 76), rel=FLOAT64)  # q4 is silent above 0.5


def test_only_values_above_the_threshold_are_silent() -> None:
    no_answer = dict.fromkeys(GOLDS, 0.5)
    at, below = (
        score_squad2(GOLDS, PREDICTIONS, no_answer=no_answer, threshold=threshold).values for threshold in (0.5, 0.49)
    )
    assert (at["exact"], below["exact"]) == (40, 40)
    assert [at["HasAns_exact"], below["HasAns_exact"]] == pytest.approx([100 / 3, 0], rel=FLOAT64)
    assert (at["NoAns_exact"], below["NoAns_exact"]) == (50, 100)


def test_where_silence_is_best_the_best_threshold_is_0() -> None:
    values = score_squad2({"q1": [], "q2": ["cat"]}, {"q1": "x", "q2": "x"}, no_answer={"q1": 0.3, "q2": 0.4}).values
    assert (values["best_f1"], values["best_f1_thresh"]) == (50, 0)


def test_an_article_as_prediction_is_right_without_an_answer_but_no_silence_to_the_threshold_search() -> None:
    golds = {"q1": [], "q2": ["cat"]}
    values = score_squad2(golds, {"q1": "the", "q2": "cat"}, no_answer={"q1": 0.1, "q2": 0.2}).values
    assert (values["NoAns_exact"], values["exact"]) == (100, 100)
    assert (values["best_exact"], values["best_exact_thresh"]) == (50, 0)  # silence 1, q1 loses 1, q2 gains it back


@pytest.mark.parametrize(("order", "best", "place"), [("q1 q2", 100, 0.5), ("q2 q1", 50, 0)])
def test_equal_no_answer_values_are_searched_one_by_one_in_the_order_of_their_file(
    order: str, best: float, place: float
) -> None:
    golds = {"q1": ["cat"], "q2": []}
    predictions = {"q1": "cat", "q2": "dog"}
    values = score_squad2(golds, predictions, no_answer=dict.fromkeys(order.split(), 0.5)).values
    assert (values["best_exact"], values["best_exact_thresh"]) == (best, place)


def test_of_equal_totals_the_search_keeps_the_first() -> None:
    golds = {"q1": ["cat"], "q2": [], "q3": ["dog"]}
    no_answer = {"q1": 0.1, "q2": 0.2, "q3": 0.3}
    values = score_squad2(golds, {"q1": "cat", "q2": "x", "q3": "dog"}, no_answer=no_answer).values
    assert [values["best_f1"], values["best_f1_thresh"]] == pytest.approx([200 / 3, 0.1], rel=FLOAT64)  # totals 1 2 1 2


@pytest.mark.parametrize("threshold", [1.0, -1.0])
def test_a_missing_prediction_scores_0_with_or_without_an_answer(threshold: float) -> None:
    golds = {"q1": ["cat"], "q2": [], "q3": ["cat"], "q4": []}
    predictions = {"q1": "cat", "q2": "", "other": "cat"}
    values = score_squad2(golds, predictions, no_answer=dict.fromkeys(golds, 0.0), threshold=threshold).values
    assert (values["NoAns_exact"], values["NoAns_f1"]) == (50, 50)
    assert (values["best_exact"], values["best_f1"]) == (50, 50)
    assert (values["total"], values["missing"], values["extra"]) == (4, 2, 1)


def test_predictions_for_other_questions_altogether_are_refused() -> None:
    message = "none of the 2 predictions is for one of the 1 questions. Expected ids such as 'q1'. Is this the right"
    with pytest.raises(BertVisionError, match=message):
        score_squad2({"q1": ["cat"]}, {"x1": "cat", "x2": "dog"})
    with pytest.raises(BertVisionError, match=message):
        score_squad1({"q1": ["cat"]}, {"x1": "cat", "x2": "dog"})


def test_a_question_without_a_no_answer_value_is_refused() -> None:
    message = "2 of 3 questions have no no-answer value, first 'q2'. Expected a value for every question."
    with pytest.raises(BertVisionError, match=message):
        score_squad2({"q1": [], "q2": [], "q3": []}, {"q1": ""}, no_answer={"q1": 0.0})


@pytest.mark.realdata
def test_real_questions_score_as_by_the_plain_definition(real_data: Path) -> None:
    questions = load_task("squad2", data=real_data / "squad2").splits["dev"]
    assert isinstance(questions, Questions)
    golds = questions.golds()
    random = np.random.default_rng(0)
    predictions = {}
    for key, context in zip(questions.ids, questions.context_index, strict=True):
        words = questions.contexts[context].split()
        begin, size = random.integers(len(words)), random.integers(4)
        gold = next(iter(golds[key]), "") if size == 3 else ""
        predictions[key] = gold or " ".join(words[begin : begin + size])
    no_answer = {key: float(value) for key, value in zip(questions.ids, random.random(len(questions)), strict=True)}
    ours = score_squad2(golds, predictions, no_answer=no_answer, threshold=0.5).values
    plain = plain_squad2(golds, predictions, no_answer, 0.5)
    assert {name: ours[name] for name in plain} == pytest.approx(plain, rel=FLOAT64)
    assert 10 < ours["HasAns_f1"] < ours["best_f1"]  # neither all right nor all wrong
