import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertvision.errors import BertVisionError
from bertvision.tasks.batches import balanced_rows, length_batches, subset_rows

LENGTHS = st.lists(st.integers(1, 50), min_size=1, max_size=200).map(lambda values: np.array(values, dtype=np.int64))


@given(
    lengths=LENGTHS, size=st.integers(1, 9), seed=st.none() | st.integers(0, 3), tokens=st.none() | st.integers(1, 99)
)
def test_every_row_stands_in_exactly_one_batch(
    lengths: np.ndarray, size: int, seed: int | None, tokens: int | None
) -> None:
    batches = length_batches(lengths, size, seed=seed, tokens=tokens)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    assert all(len(batch) <= size for batch in batches)
    for batch in batches if tokens else []:
        assert len(batch) == 1 or len(batch) * lengths[batch].max() <= (tokens or 0)


def test_without_a_seed_the_longest_come_first() -> None:
    batches = length_batches(np.array([3, 9, 5, 7]), 2)
    assert [batch.tolist() for batch in batches] == [[1, 3], [2, 0]]


def test_rows_of_mixed_lengths_are_cut_where_padding_would_cost_too_much() -> None:
    lengths = np.array([100, 20, 90, 95, 10])
    batches = length_batches(lengths, 9, tokens=1000, padding=15)
    assert [batch.tolist() for batch in batches] == [[0, 3, 2], [1, 4]]  # 5 + 10 tokens of padding, and 10
    assert [len(batch) for batch in length_batches(lengths, 9, tokens=1000, padding=14)] == [2, 1, 2]
    assert [len(batch) for batch in length_batches(lengths, 9, tokens=1000)] == [5]


def test_shuffled_batches_hold_rows_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(10, 384, size=4096)
    batches = length_batches(lengths, 32, seed=1)
    padded = sum(len(batch) * int(lengths[batch].max()) for batch in batches)
    assert padded < 1.05 * lengths.sum()  # batches in random order would waste about 90 %
    assert [b.tolist() for b in batches] == [b.tolist() for b in length_batches(lengths, 32, seed=1)]
    assert [b.tolist() for b in batches] != [b.tolist() for b in length_batches(lengths, 32, seed=2)]


def test_balanced_rows_draw_every_class_equally_often() -> None:
    classes = np.array([0] * 900 + [1] * 90 + [2] * 10)
    drawn = np.bincount(classes[balanced_rows(classes, seed=0, rows=30_000)])
    assert np.all(np.abs(drawn - 10_000) < 400)  # four standard deviations of a binomial draw are 330
    assert len(balanced_rows(classes, seed=0)) == 1000


def test_smaller_subsets_lie_within_larger_ones() -> None:
    small, large = set(subset_rows(1000, 0.1, seed=4).tolist()), set(subset_rows(1000, 0.3, seed=4).tolist())
    assert (len(small), len(large)) == (100, 300)
    assert small < large
    assert subset_rows(1000, 1.0, seed=4).tolist() == list(range(1000))
    assert small != set(subset_rows(1000, 0.1, seed=5).tolist())


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1])
def test_a_fraction_outside_0_to_1_is_refused(fraction: float) -> None:
    with pytest.raises(BertVisionError, match="more than 0 and at most 1"):
        subset_rows(10, fraction, seed=0)


@pytest.mark.parametrize(("size", "tokens"), [(0, None), (4, 0)])
def test_empty_batches_are_refused(size: int, tokens: int | None) -> None:
    with pytest.raises(BertVisionError, match="at least 1"):
        length_batches(np.array([1, 2]), size, tokens=tokens)
