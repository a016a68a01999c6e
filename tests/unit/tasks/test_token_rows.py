"""What an encoder sees of windows, and which of them are the same to it."""

import numpy as np

from bertvision.tasks.token_rows import TokenRows, join_rows, ranges

ROWS = TokenRows(
    np.array([1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 1, 2], dtype=np.int32),
    np.array([0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0], dtype=np.uint8),
    np.array([0, 3, 7, 10, 12]),
)
"""Four windows: 1 2 3, 1 2 3 4, 1 2 3 with other segments, and 1 2."""


def test_windows_have_lengths_and_places() -> None:
    assert len(ROWS) == 4
    assert ROWS.lengths.tolist() == [3, 4, 3, 2]
    assert ROWS.places(np.array([3, 0])).tolist() == [10, 11, 0, 1, 2]


def test_ranges_stand_one_after_the_other_and_may_be_empty() -> None:
    assert ranges(np.array([7, 3, 0, 9]), np.array([2, 0, 3, 1])).tolist() == [7, 8, 0, 1, 2, 9]
    assert ranges(np.array([7]), np.array([0])).tolist() == []


def test_no_windows_have_no_tokens() -> None:
    none = ROWS.select(np.array([], dtype=np.int64))
    assert (len(none), none.ids.tolist(), none.bounds.tolist()) == (0, [], [0])


def test_windows_are_padded_to_a_round_length_but_not_beyond_the_limit() -> None:
    rows = np.array([3, 0])
    ids, types, real = ROWS.padded(rows, 9)
    assert ids.tolist() == [[1, 2, 9], [1, 2, 3]]
    assert types.tolist() == [[0, 0, 0], [0, 0, 1]]
    assert real.tolist() == [[True, True, False], [True, True, True]]
    lengths = [ROWS.padded(rows, 9, multiple=4, limit=limit)[0].shape[1] for limit in (None, 6, 4, 3, 1)]
    assert lengths == [4, 4, 4, 3, 3]


def test_windows_are_the_same_if_all_tokens_and_segments_are() -> None:
    contents = list(ROWS.contents())
    assert len(set(contents)) == 4
    assert list(ROWS.select(np.array([2, 2, 0])).contents()) == [contents[2], contents[2], contents[0]]


def test_the_end_of_one_window_is_not_taken_for_the_beginning_of_its_segments() -> None:
    # 4 + 1 bytes each; the segment number must not be read as a part of a token
    one = TokenRows(np.array([1, 2], dtype=np.int32), np.array([0, 0], dtype=np.uint8), np.array([0, 2]))
    two = TokenRows(np.array([1, 2], dtype=np.int32), np.array([0, 0], dtype=np.uint8), np.array([0, 1, 2]))
    assert not set(one.contents()) & set(two.contents())


def test_selected_windows_stand_end_to_end_in_the_order_that_was_asked_for() -> None:
    some = ROWS.select(np.array([3, 1]))
    assert some.ids.tolist() == [1, 2, 1, 2, 3, 4]
    assert some.types.tolist() == [0, 0, 0, 0, 1, 1]
    assert some.bounds.tolist() == [0, 2, 6]


def test_parts_are_joined_one_after_the_other() -> None:
    joined = join_rows([ROWS, ROWS.select(np.array([1])), ROWS])
    assert list(joined.contents()) == [*ROWS.contents(), list(ROWS.contents())[1], *ROWS.contents()]
    assert joined.bounds.tolist() == [0, 3, 7, 10, 12, 16, 19, 23, 26, 28]
