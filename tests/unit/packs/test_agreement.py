"""Which predictions count as the same."""

import numpy as np
import pytest

from bertvision.packs.agreement import ReaderOutputs, compare_examples

COLUMNS = [np.array([1.0, -4.0], dtype=np.float32)]


def agreement(first: list[object], second: list[object]) -> float:
    return compare_examples(ReaderOutputs(COLUMNS, first), ReaderOutputs(COLUMNS, second)).agreement


def test_an_answer_is_the_same_only_if_it_is_given_or_withheld_alike() -> None:
    first: list[object] = [("a", "a"), ("b", ""), ("c", "c"), ("d", "")]
    second: list[object] = [("a", "a"), ("b", ""), ("c", ""), ("e", "")]
    assert agreement(first, second) == 0.5


def test_scores_are_the_same_if_they_are_near_and_labels_if_they_are_equal() -> None:
    assert agreement([1.0, 1.0, 200.0, 200.0], [1.009, 1.02, 201.0, 203.0]) == 0.5
    assert agreement([1, 2, 3, 4], [1, 2, 3, 5]) == 0.75


def test_a_graph_is_near_if_no_output_differs_by_more_than_a_share_of_the_largest() -> None:
    for difference, near in ((3e-4, True), (5e-4, False)):
        other = [COLUMNS[0] + np.array([difference, 0.0], dtype=np.float32)]
        found = compare_examples(ReaderOutputs(COLUMNS, [0]), ReaderOutputs(other, [0]))
        assert (found.largest, found.near) == (4.0, near)
        assert found.difference == pytest.approx(difference, rel=1e-3)
