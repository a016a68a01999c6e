import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertvision.tasks.batches import FEWEST_ARTICLES, held_out_rows
from bertvision.tasks.examples import Questions, Texts, gold_targets
from conftest import make_questions


def questions(contexts: list[int], titles: list[str]) -> Questions:
    """One question per entry of `contexts`; the titles are those of the contexts."""
    return Questions(
        ids=[str(row) for row in range(len(contexts))],
        questions=["where ?"] * len(contexts),
        context_index=np.array(contexts, dtype=np.int64),
        answers=[()] * len(contexts),
        contexts=[f"context {number}" for number in range(len(titles))],
        titles=titles,
    )


def texts(words: list[str], pairs: list[str] | None = None) -> Texts:
    return Texts([str(row) for row in range(len(words))], words, pairs, np.arange(len(words)) % 2)


def test_of_texts_a_share_is_held_out_in_order_and_the_same_for_a_seed() -> None:
    different = texts([str(row) for row in range(200)])
    rows = held_out_rows(different, 0.1, seed=1)
    assert len(rows) == len(set(rows.tolist())) == 20
    assert rows.tolist() == sorted(rows.tolist())
    assert rows.tolist() == held_out_rows(different, 0.1, seed=1).tolist()
    assert rows.tolist() != held_out_rows(different, 0.1, seed=2).tolist()


def test_texts_that_are_all_different_are_drawn_one_by_one() -> None:
    rows = held_out_rows(texts([str(row) for row in range(200)]), 0.1, seed=1)
    assert rows.tolist() == sorted(np.random.default_rng(1).permutation(200)[:20].tolist())


@settings(max_examples=40)
@given(
    words=st.lists(st.sampled_from("abcdefghijklmnop"), min_size=1, max_size=200),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 3),
    paired=st.booleans(),
)
def test_no_text_and_no_pair_of_texts_is_on_both_sides(
    words: list[str], share: float, seed: int, *, paired: bool
) -> None:
    examples = texts(words, ["xyz"[row % 3] for row in range(len(words))] if paired else None)
    said = list(zip(words, examples.pairs or words, strict=True))
    rows = held_out_rows(examples, share, seed).tolist()
    largest = max(said.count(one) for one in said)
    assert not {said[row] for row in rows} & {said[row] for row in set(range(len(said))) - set(rows)}
    assert round(share * len(said)) <= len(rows) < round(share * len(said)) + max(largest, 1)
    assert set(held_out_rows(examples, share / 2, seed).tolist()) <= set(rows)


@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(1, 6), min_size=2, max_size=240),
    articles=st.integers(1, 240),
    share=st.floats(0.01, 0.9),
    seed=st.integers(0, 3),
)
def test_no_context_and_where_there_are_enough_no_article_is_on_both_sides(
    counts: list[int], articles: int, share: float, seed: int
) -> None:
    contexts = [number for number, count in enumerate(counts) for _ in range(count)]
    titles = [f"article {number % articles}" for number in range(len(counts))]
    examples = questions(contexts, titles)
    rows = held_out_rows(examples, share, seed)
    rest = np.setdiff1d(np.arange(len(examples)), rows)
    of_rows, of_rest = (set(examples.context_index[part].tolist()) for part in (rows, rest))
    assert not of_rows & of_rest
    if len(set(titles)) >= FEWEST_ARTICLES:
        assert not {titles[number] for number in of_rows} & {titles[number] for number in of_rest}
    assert len(rows) >= share * len(examples)


def test_no_more_is_held_out_than_the_share_asks_for_but_for_one_group() -> None:
    examples = questions([number // 5 for number in range(500)], ["one title"] * 100)
    assert 50 <= len(held_out_rows(examples, 0.1, seed=0)) < 55


@pytest.mark.parametrize("articles", [FEWEST_ARTICLES - 1, FEWEST_ARTICLES])
def test_few_articles_are_not_held_out_whole_and_a_smaller_share_lies_within_a_larger_one(articles: int) -> None:
    titles = [f"article {number // 10}" for number in range(10 * articles)]
    examples = questions(list(range(10 * articles)), titles)
    more, fewer = (held_out_rows(examples, share, seed=0).tolist() for share in (0.05, 0.02))
    assert set(fewer) < set(more)
    whole = len({titles[row] for row in more}) == articles // 20
    assert whole == (articles == FEWEST_ARTICLES)


def test_articles_of_contexts_that_nobody_asks_about_do_not_count() -> None:
    examples = questions([0, 0, 1, 1], [f"article {number}" for number in range(99)])
    rows = held_out_rows(examples, 0.5, seed=0)
    assert rows.tolist() in ([0, 1], [2, 3])


def test_the_target_of_a_question_is_whether_it_has_an_answer() -> None:
    examples = make_questions(("q", "gold here", "gold"), ("q", "none", None))
    assert gold_targets(examples).tolist() == [1, 0]
    assert gold_targets(examples).dtype == np.int64


@pytest.mark.parametrize("targets", [np.array([2, 0]), np.array([0.5, 1.5])])
def test_the_targets_of_texts_are_their_own(targets: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> None:
    examples = Texts(["1", "2"], ["a", "b"], None, targets)
    assert gold_targets(examples) is targets
