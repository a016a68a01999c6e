"""Every training example in one of K parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertvision.errors import BertVisionError
from bertvision.tasks.batches import FEWEST_ARTICLES
from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.folds import fold_numbers, folds_digest


def questions(contexts: list[int], titles: list[str]) -> Questions:
    """One question per entry of `contexts`; the titles are those of the contexts."""
    return Questions(
        ids=[f"q{row}" for row in range(len(contexts))],
        questions=["where ?"] * len(contexts),
        context_index=np.array(contexts, dtype=np.int64),
        answers=[()] * len(contexts),
        contexts=[f"context {number}" for number in range(len(titles))],
        titles=titles,
    )


def texts(words: list[str], pairs: list[str] | None = None) -> Texts:
    return Texts([str(row) for row in range(len(words))], words, pairs, np.zeros(len(words), dtype=np.int64))


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(1, 6), min_size=12, max_size=240), articles=st.integers(1, 240), folds=st.integers(2, 4)
)
def test_no_context_and_where_there_are_enough_no_article_is_in_two_folds(
    counts: list[int], articles: int, folds: int
) -> None:
    contexts = [number for number, count in enumerate(counts) for _ in range(count)]
    titles = [f"article {number % articles}" for number in range(len(counts))]
    numbers = fold_numbers(questions(contexts, titles), folds)
    assert set(numbers.tolist()) == set(range(folds))
    groups = [titles[context] for context in contexts] if len(set(titles)) >= FEWEST_ARTICLES else contexts
    assert len(set(zip(groups, numbers.tolist(), strict=True))) == len(set(groups))


@pytest.mark.parametrize("folds", [2, 3, 5, 10])
def test_folds_are_about_equally_large_and_scattered(folds: int) -> None:
    numbers = fold_numbers(texts([f"text {row}" for row in range(1000)]), folds)
    sizes = np.bincount(numbers, minlength=folds)
    assert sizes.max() - sizes.min() <= 1
    assert np.mean(np.diff(numbers) == 0) < 1 / folds + 0.06  # neighbours in the file are not neighbours here


def test_texts_with_the_same_words_are_in_one_fold() -> None:
    numbers = fold_numbers(texts([f"text {row % 100}" for row in range(300)]), 3)
    assert np.array_equal(numbers[:100], numbers[100:200])
    assert np.array_equal(numbers[:100], numbers[200:])
    pairs = fold_numbers(texts(["same"] * 300, [f"text {row % 100}" for row in range(300)]), 3)
    assert set(pairs.tolist()) == {0, 1, 2}
    assert np.array_equal(pairs[:100], pairs[100:200])


def test_folds_depend_on_the_texts_and_not_on_their_order() -> None:
    words = [f"text {row}" for row in range(50)]
    order = np.random.default_rng(0).permutation(50)
    shuffled = fold_numbers(texts([words[row] for row in order]), 4)
    assert np.array_equal(shuffled, fold_numbers(texts(words), 4)[order])


def test_half_a_character_is_text_too() -> None:
    assert set(fold_numbers(texts(["a \ud800", "b", "c", "d"]), 2).tolist()) == {0, 1}


def test_too_few_texts_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"2 different texts or articles are too few for 3 folds. Use a smaller"):
        fold_numbers(texts(["a", "b", "a"]), 3)


def test_the_digest_tells_other_examples_and_other_folds() -> None:
    some = texts(["a", "b", "c"])
    found = folds_digest(some, np.array([0, 1, 1]))
    assert found == folds_digest(texts(["a", "b", "c"]), np.array([0, 1, 1]))
    assert found != folds_digest(some, np.array([0, 1, 0]))
    assert found != folds_digest(some.select(np.array([1, 0, 2])), np.array([0, 1, 1]))
