"""Which texts belong together: the rules of document 004, on sets small enough to see through."""

from dataclasses import replace

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import IntArray, Texts, target_array
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import TableLayout
from bertvision.tasks.triplets import OWN_NEGATIVES, Triplets, draw_others, mine_triplets, same_class
from conftest import make_questions, make_tags


def texts(task: str, *rows: tuple[str, float] | tuple[str, str, float]) -> Texts:
    return Texts(
        ids=[str(number) for number in range(len(rows))],
        texts=[str(row[0]) for row in rows],
        pairs=[str(row[1]) for row in rows] if len(rows[0]) == 3 else None,
        targets=target_array(TASKS[task].kind, [float(row[-1]) for row in rows]),
    )


SENTIMENT = texts("sst5", *((f"{'abcde'[label]}{n}", label) for label in range(5) for n in range(4)))
"""a0 to a3 have class 0, b0 to b3 class 1, …"""

SIMILAR = texts(
    "sts",
    *((f"low{n}", f"LOW{n}", 2.0 * (n % 2)) for n in range(4)),
    *((f"high{n}", f"HIGH{n}", 3.0 + n % 3) for n in range(4)),
    ("between", "BETWEEN", 2.4),
    ("Between", "bETWEEN", 2.9),
)

QUESTIONS = texts(
    "quora",
    *((f"ask{n}", f"ASK{n}", 1) for n in range(5)),
    *((f"not{n}", f"NOT{n}", 0) for n in range(5)),
    ("same", "same", 1),
)


def mined(**sets: Texts) -> Triplets:
    return mine_triplets({name: (TASKS[name], examples) for name, examples in sets.items()}, seed=3)


def words(triplets: Triplets, numbers: IntArray) -> list[str]:
    return [triplets.texts[number] for number in numbers.ravel().tolist()]


def test_every_text_with_a_label_is_an_anchor_once_near_its_class_and_far_from_others() -> None:
    found = mined(sst5=SENTIMENT)
    assert sorted(words(found, found.anchor)) == sorted(SENTIMENT.texts)
    for row in range(len(found)):
        [anchor], [positive] = words(found, found.anchor[row]), words(found, found.positive[row])
        negatives = words(found, found.negatives[row])
        assert positive[0] == anchor[0]
        assert positive != anchor
        assert len(set(negatives)) == OWN_NEGATIVES == 3
        assert all(negative[0] != anchor[0] for negative in negatives)


def test_scores_of_0_to_2_stand_against_those_of_3_to_5_and_what_is_between_is_left_out() -> None:
    found = mined(sts=SIMILAR)
    anchors = words(found, found.anchor)
    assert sorted(anchors) == sorted(f"{name}{n}" for name in ("low", "LOW", "high", "HIGH") for n in range(4))
    for anchor, positive in zip(anchors, words(found, found.positive), strict=True):
        assert positive[:3].lower() == anchor[:3].lower()
        assert positive != anchor
    for anchor, negatives in zip(anchors, found.negatives, strict=True):
        assert all(word[:3].lower() != anchor[:3].lower() for word in words(found, negatives))
    assert found.left_out == {"sts": {"between": 2, "two classes": 0, "alone": 0}}


def test_a_paraphrase_is_the_positive_and_negatives_come_from_pairs_that_are_none() -> None:
    found = mined(quora=QUESTIONS)
    assert words(found, found.anchor) == [f"ask{n}" for n in range(5)]
    assert words(found, found.positive) == [f"ASK{n}" for n in range(5)]
    assert all(word.lower().startswith("not") for word in words(found, found.negatives))
    assert all(len(set(row.tolist())) == 3 for row in found.negatives)
    assert found.left_out == {"quora": {"the same words": 1}}


def test_a_paraphrase_that_is_in_another_pair_is_not_a_negative_of_its_own() -> None:
    tricky = texts("quora", ("x", "y", 1), ("x", "n1", 0), ("y", "n2", 0), ("n3", "n3", 0))
    for seed in range(20):
        found = mine_triplets({"quora": (TASKS["quora"], tricky)}, seed=seed)
        assert sorted(words(found, found.negatives)) == ["n1", "n2", "n3"]


def test_every_other_set_gives_one_more_negative() -> None:
    found = mined(sst5=SENTIMENT, sts=SIMILAR, quora=QUESTIONS)
    assert found.names == ("sst5", "sts", "quora")
    assert found.negatives.shape == (20 + 16 + 5, 3 + 2)
    sets = [
        set(SENTIMENT.texts),
        {*SIMILAR.texts, *(SIMILAR.pairs or [])},
        {*QUESTIONS.texts, *(QUESTIONS.pairs or [])},
    ]
    for row, number in enumerate(found.set_of.tolist()):
        others = [one for n, one in enumerate(sets) if n != number]
        found_words = words(found, found.negatives[row])
        assert all(word in sets[number] for word in found_words[:3])
        assert [word in one for word, one in zip(found_words[3:], others, strict=True)] == [True, True]


def test_a_text_of_two_classes_and_one_that_is_alone_in_its_class_are_no_anchors() -> None:
    more = texts("sst5", ("a", 0), ("b", 0), ("x", 0), ("x", 1), ("c", 1), ("d", 1), ("e", 1), ("lonely", 4), ("a", 0))
    found = mined(sst5=more)
    assert sorted(words(found, found.anchor)) == ["a", "b", "c", "d", "e"]
    assert found.left_out == {"sst5": {"two classes": 1, "alone": 1}}
    assert "x" not in words(found, found.negatives)


def test_groups_are_classes_within_a_set_and_every_paraphrase_is_its_own() -> None:
    found = mined(sst5=SENTIMENT, quora=QUESTIONS)
    assert len(set(found.group[found.set_of == 0].tolist())) == 5
    assert len(set(found.group[found.set_of == 1].tolist())) == 5
    assert not set(found.group[found.set_of == 0].tolist()) & set(found.group[found.set_of == 1].tolist())


def test_the_same_seed_draws_the_same() -> None:
    one, two, other = (mine_triplets({"sst5": (TASKS["sst5"], SENTIMENT)}, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one.negatives, two.negatives)
    assert not np.array_equal(one.negatives, other.negatives)


def test_draws_are_different_not_taken_and_reach_every_text() -> None:
    pool = np.array([2, 5, 7, 9])
    taken = np.tile(np.array([[7, 2]]), (400, 1))
    drawn = draw_others(np.random.default_rng(0), pool, taken, 1, what="x")
    assert set(drawn.ravel().tolist()) == {5, 9}
    both = draw_others(np.random.default_rng(0), pool, taken, 2, what="x")
    assert {tuple(row) for row in both.tolist()} == {(5, 9)}
    one = draw_others(np.random.default_rng(0), pool, np.array([[7, 7]]), 3, what="x")
    assert one.tolist() == [[2, 5, 9]]
    with pytest.raises(BertVisionError, match="x has 2 texts to draw 3 from"):
        draw_others(np.random.default_rng(0), pool, taken, 3, what="x")


def test_every_task_of_pairs_with_labels_tells_which_label_means_the_same() -> None:
    pairs = [task for task in TASKS.values() if isinstance(task.layout, TableLayout) and task.layout.pair is not None]
    assert {task.name: task.labels[same_class(task)] for task in pairs if task.kind == "labels"} == {
        **dict.fromkeys(("quora", "mrpc", "qqp", "wnli"), "1"),
        **dict.fromkeys(("rte", "qnli", "mnli"), "entailment"),
    }


@pytest.mark.parametrize(
    ("labels", "same"), [("0 1", "1"), ("no yes", "yes"), ("False True", "True"), ("Entailment Other", "Entailment")]
)
def test_labels_of_one_s_own_tell_by_their_words_which_means_the_same(labels: str, same: str) -> None:
    task = replace(TASKS["quora"], name="own", labels=tuple(labels.split()))
    assert task.labels[same_class(task)] == same


@pytest.mark.parametrize(
    "labels", ["duplicate not_duplicate", "match no_match", "paraphrase unrelated", "1 2", "0 1 2", "no yes maybe"]
)
def test_labels_that_do_not_tell_which_means_the_same_are_refused(labels: str) -> None:
    task = replace(TASKS["quora"], name="own", labels=tuple(labels.split()))
    message = rf"own: .*{', '.join(task.labels)}.* Write 1 for pairs that mean the same and 0 for all others\."
    with pytest.raises(BertVisionError, match=message):
        mine_triplets({"own": (task, QUESTIONS)}, seed=0)


def test_sets_that_give_no_triplets_are_refused() -> None:
    questions = make_questions(("Where?", "Here it is.", "Here"))
    with pytest.raises(BertVisionError, match="squad2: triplets are made of texts with labels or scores"):
        mine_triplets({"squad2": (TASKS["squad2"], questions)}, seed=0)
    with pytest.raises(BertVisionError, match="moods: triplets are made of"):
        mine_triplets({"moods": (make_tags("a"), SENTIMENT)}, seed=0)
    with pytest.raises(BertVisionError, match="quora has no text with another that belongs near it"):
        mined(quora=texts("quora", ("a", "b", 0), ("c", "d", 0)))


def test_texts_that_stand_in_no_triplet_are_dropped_and_the_others_numbered_anew() -> None:
    found = mined(quora=QUESTIONS).select(np.array([3]))
    assert (len(found), words(found, found.anchor)) == (1, ["ask3"])
    assert len(found.texts) == 21
    small = found.compact()
    assert len(small.texts) == 5
    for one, two in (
        (found.anchor, small.anchor),
        (found.positive, small.positive),
        (found.negatives, small.negatives),
    ):
        assert words(found, one) == words(small, two)
