"""Passages cover their texts, break between sentences, and are ranked by the question's rare words."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bertvision.packs.passages import bm25, cut_passages, rank_passages
from close import about


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("ab .\n?"), max_size=120), min_size=1, max_size=3),
    st.integers(5, 40),
    st.integers(0, 10),
)
def test_every_character_but_space_is_in_a_passage_of_the_right_length(
    texts: list[str], length: int, overlap: int
) -> None:
    passages = cut_passages(texts, length=length, overlap=overlap)
    covered = [np.zeros(len(text), dtype=bool) for text in texts]
    for document, (begin, end) in zip(passages.document.tolist(), passages.bounds.tolist(), strict=True):
        assert 0 < end - begin <= length
        covered[document][begin:end] = True
    for text, there in zip(texts, covered, strict=True):
        assert all(seen or character.isspace() for seen, character in zip(there, text, strict=True))


def test_passages_end_between_sentences_and_share_whole_ones() -> None:
    text = "One two three. Four five six. Seven eight nine. Ten."
    passages = cut_passages([text], length=35, overlap=16)
    assert [text[begin:end] for begin, end in passages.bounds.tolist()] == [
        "One two three. Four five six. ",
        "Four five six. Seven eight nine. ",
        "Ten.",
    ]


def test_passages_with_rare_words_of_the_question_come_first() -> None:
    texts = ["the cat and the dog", "the the the", "a walrus was walking", "the dog"]
    passages = cut_passages(texts)
    order = rank_passages("Where did the walruses walk?", texts, passages)
    assert order.tolist()[0] == 2
    assert set(order.tolist()[1:]) == {0, 1, 3}


def test_scores_are_those_ofbm25() -> None:
    counts, lengths = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([[10], [10], [40]])
    rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    short, long = 1.2 * (0.25 + 0.75 * 10 / 20), 1.2 * (0.25 + 0.75 * 40 / 20)
    expected = [rarity * 2 * 2.2 / (2 + short), rarity * 2.2 / (1 + short), 2 * rarity * 2.2 / (1 + long)]
    assert bm25(counts, lengths).tolist() == [about(value) for value in expected]


def test_letters_that_grow_when_they_are_made_small_do_not_shift_places() -> None:
    texts = ["İİİİİİİİİİ a. " * 20 + "The walrus sleeps. " + "b c. " * 20]
    passages = cut_passages(texts, length=40, overlap=0)
    best = rank_passages("walrus", texts, passages)[0]
    begin, end = passages.bounds[best].tolist()
    assert "walrus" in texts[0][begin:end]


def test_a_question_without_words_keeps_the_order() -> None:
    texts = ["a b", "c d"]
    assert rank_passages("?!", texts, cut_passages(texts)).tolist() == [0, 1]


def test_empty_texts_have_no_passages() -> None:
    assert len(cut_passages(["", "  \n"])) == 0
