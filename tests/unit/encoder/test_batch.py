from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertvision.encoder.batch import filling, packed_batch, padded_batch, token_batch, unpack, window_places
from tiny_models import tiny_windows

WINDOWS = tiny_windows(2, 4, 1)
WINDOWS.ids[:] = [10, 11, 20, 21, 22, 23, 30]
WINDOWS.types[:] = [0, 1, 0, 0, 1, 1, 0]


def test_windows_are_padded_to_the_longest_of_the_batch() -> None:
    batch = padded_batch(WINDOWS, np.array([1, 0]), pad=9)
    assert batch.ids.tolist() == [[20, 21, 22, 23], [10, 11, 9, 9]]
    assert batch.types.tolist() == [[0, 0, 1, 1], [0, 1, 0, 0]]
    assert batch.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert (batch.longest, batch.packed, batch.full) == (4, False, False)
    assert (batch.ids.dtype, batch.types.dtype, batch.mask.dtype) == (torch.int64, torch.int64, torch.bool)


def test_a_batch_of_short_windows_is_not_padded_to_the_longest_of_the_split() -> None:
    assert padded_batch(WINDOWS, np.array([2, 0])).ids.tolist() == [[30, 0], [10, 11]]


def test_a_batch_knows_that_it_has_no_padding() -> None:
    assert padded_batch(WINDOWS, np.array([1, 1])).full
    assert not padded_batch(WINDOWS, np.array([1, 2])).full


def test_packed_windows_stand_end_to_end_in_the_order_asked_for() -> None:
    batch = packed_batch(WINDOWS, np.array([2, 1, 0]))
    assert batch.ids.tolist() == [[30, 20, 21, 22, 23, 10, 11]]
    assert batch.types.tolist() == [[0, 0, 0, 1, 1, 0, 1]]
    assert batch.mask.tolist() == [[True] * 7]
    assert batch.bounds is not None
    assert batch.bounds.tolist() == [0, 1, 5, 7]
    assert batch.bounds.dtype == torch.int32  # what the kernel takes
    assert (batch.longest, batch.packed, batch.full) == (4, True, True)


def test_tokens_of_packed_windows_are_filled_up_behind_them() -> None:
    batch = packed_batch(WINDOWS, np.array([1, 2]), pad=9, fill=4)
    assert batch.ids.tolist() == [[20, 21, 22, 23, 30, 9, 9, 9]]
    assert batch.types.tolist() == [[0, 0, 1, 1, 0, 0, 0, 0]]
    assert batch.mask.tolist() == [[True] * 5 + [False] * 3]
    assert batch.bounds is not None
    assert batch.bounds.tolist() == [0, 4, 5, 8, 8]  # as many fillers as windows, of at most 4 tokens
    assert (batch.windows, batch.fillers, batch.longest, batch.full) == (2, 2, 4, False)
    assert packed_batch(WINDOWS, np.array([2]), fill=4).longest == 4  # fillers may be longer than windows


@pytest.mark.parametrize(("longest", "fill"), [(1, 4), (64, 4), (65, 8), (128, 8), (129, 16), (512, 16)])
def test_short_windows_are_filled_up_less(longest: int, fill: int) -> None:
    assert filling(longest) == fill
    batch = token_batch(tiny_windows(longest, 1), np.array([0, 1]), packed=True, pad=0, even=True)
    assert batch.ids.shape[1] % (2 * fill) == 0
    assert batch.ids.shape[1] - (longest + 1) < 2 * fill
    assert batch.longest == -(-longest // (4 * fill)) * 4 * fill


def test_of_pairs_apart_the_fillers_stand_behind_both_texts() -> None:
    pairs = replace(WINDOWS, second=tiny_windows(1, 2, 3))
    batch = token_batch(pairs, np.array([2, 0]), packed=True, pad=9, even=True)
    assert batch.bounds is not None
    assert batch.bounds.tolist() == [0, 1, 3, 6, 7, 11, 15, 16, 16]
    assert batch.ids[0, 7:].tolist() == [9] * 9
    assert unpack(batch.ids[0], batch)[0].shape == (4, 16)


def test_a_batch_that_needs_no_filling_has_empty_fillers() -> None:
    batch = packed_batch(WINDOWS, np.array([1, 1]), fill=4)
    assert batch.ids.shape == (1, 8)
    assert batch.bounds is not None
    assert batch.bounds.tolist() == [0, 4, 8, 8, 8]


def test_every_packed_token_has_its_window_and_its_place_there() -> None:
    window, place = window_places(torch.tensor([0, 1, 5, 7], dtype=torch.int32), 7)
    assert window.tolist() == [0, 1, 1, 1, 1, 2, 2]
    assert place.tolist() == [0, 0, 1, 2, 3, 0, 1]


def test_rows_of_packed_tokens_are_told_apart_again() -> None:
    batch = packed_batch(WINDOWS, np.array([2, 0]))
    rows, mask = unpack(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), batch)
    assert rows.tolist() == [[[1.0, 2.0], [0.0, 0.0]], [[3.0, 4.0], [5.0, 6.0]]]
    assert mask.tolist() == [[True, False], [True, True]]


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    fill=st.none() | st.integers(1, 9),
)
def test_packed_and_padded_batches_hold_the_same_tokens(
    data: st.DataObject, lengths: list[int], fill: int | None
) -> None:
    windows = tiny_windows(*lengths)
    row = st.integers(0, len(lengths) - 1)
    rows = np.array(data.draw(st.lists(row, min_size=1, max_size=6)), dtype=np.int64)
    packed, padded = packed_batch(windows, rows, fill=fill), padded_batch(windows, rows)
    ids, mask = unpack(packed.ids[0], packed)
    types, _ = unpack(packed.types[0], packed)
    more = packed.longest - padded.longest
    for found, expected in ((mask, padded.mask), (ids, padded.ids), (types, padded.types)):
        assert torch.equal(found, torch.nn.functional.pad(expected, (0, more)))
    assert packed.windows == padded.windows == len(rows)
    if fill is not None and packed.bounds is not None:
        assert packed.ids.shape[1] % (fill * len(rows)) == 0
        assert int(packed.bounds.diff().max()) <= packed.longest
        assert int(packed.bounds[-1]) == packed.ids.shape[1]


def test_gradients_pass_through_unpacking() -> None:
    values = torch.ones(3, 2, requires_grad=True)
    rows, _ = unpack(values, packed_batch(WINDOWS, np.array([2, 0])))
    torch.autograd.backward(rows.sum())
    assert values.grad is not None
    assert values.grad.tolist() == [[1.0, 1.0]] * 3


def test_a_padded_batch_cannot_be_unpacked() -> None:
    batch = padded_batch(WINDOWS, np.array([0]))
    with pytest.raises(ValueError, match="the batch is not packed"):
        unpack(batch.ids[0], batch)


@pytest.mark.parametrize("packed", [False, True])
def test_all_of_a_batch_goes_to_another_device(*, packed: bool) -> None:
    batch = (packed_batch if packed else padded_batch)(WINDOWS, np.array([0, 1]))
    moved = batch.to(torch.device("meta"))
    tensors = [moved.ids, moved.types, moved.mask, *([] if moved.bounds is None else [moved.bounds])]
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert (moved.packed, moved.longest, moved.full, len(tensors)) == (packed, 4, packed, 3 + packed)


def test_of_pairs_apart_all_first_texts_come_before_the_second_ones() -> None:
    pairs = replace(WINDOWS, second=tiny_windows(1, 2, 3))
    assert pairs.second is not None
    pairs.second.ids[:] = [40, 50, 51, 60, 61, 62]
    assert pairs.sizes.tolist() == [2 + 1, 4 + 2, 1 + 3]
    packed = token_batch(pairs, np.array([2, 0]), packed=True, pad=0)
    assert packed.ids.tolist() == [[30, 10, 11, 60, 61, 62, 40]]
    assert packed.bounds is not None
    assert packed.bounds.tolist() == [0, 1, 3, 6, 7]
    padded = token_batch(pairs, np.array([2, 0]), packed=False, pad=9)
    assert padded.ids.tolist() == [[30, 9, 9], [10, 11, 9], [60, 61, 62], [40, 9, 9]]


@pytest.mark.parametrize("packed", [True, False])
def test_windows_of_single_texts_are_batched_as_they_always_were(packed: bool) -> None:  # noqa: FBT001 - a parameter
    rows = np.array([1, 0])
    batch = token_batch(WINDOWS, rows, packed=packed, pad=9)
    expected = packed_batch(WINDOWS, rows) if packed else padded_batch(WINDOWS, rows, pad=9)
    assert torch.equal(batch.ids, expected.ids)
    assert WINDOWS.sizes.tolist() == WINDOWS.lengths.tolist()
