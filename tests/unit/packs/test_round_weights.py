"""Weights in 8 bits: rows make up for each other's errors where the states go together."""

import numpy as np
from numpy.typing import NDArray

from bertvision.packs.round_weights import round_weights

Floats = NDArray[np.float32]


def make_states(rows: int = 600, columns: int = 200) -> Floats:
    """Few directions and a little noise: columns go together, as an encoder's do."""
    random = np.random.default_rng(0)
    few = random.normal(size=(rows, 20)) @ random.normal(size=(20, columns))
    return (few + 0.1 * random.normal(size=(rows, columns))).astype(np.float32)


def test_the_product_with_states_that_go_together_is_nearer_than_by_plain_rounding() -> None:
    states, weight = make_states(), np.random.default_rng(1).normal(size=(200, 30)).astype(np.float32)
    seen, unseen = states[:400], states[400:]
    ours = round_weights(weight, seen.T @ seen / len(seen))
    assert ours.integers.dtype == np.int8
    plain = np.rint(weight / ours.scale)
    errors = [np.mean((unseen @ (one * ours.scale - weight)) ** 2) for one in (ours.integers, plain)]
    assert errors[0] < 0.2 * errors[1]


def test_columns_that_have_nothing_in_common_are_rounded_to_the_nearest() -> None:
    weight = np.random.default_rng(1).normal(size=(150, 30)).astype(np.float32)
    widths = np.linspace(1, 5, 150, dtype=np.float32)
    ours = round_weights(weight, np.diag(widths))
    assert np.array_equal(ours.integers, np.rint(weight / ours.scale))
    assert np.array_equal(np.abs(ours.integers).max(axis=0), np.full(30, 127))


def test_columns_that_were_never_seen_and_weights_of_zero_are_no_trouble() -> None:
    ours = round_weights(np.zeros((4, 3), dtype=np.float32), np.zeros((4, 4), dtype=np.float32))
    assert not (ours.integers * ours.scale).any()
