from pathlib import Path

import numpy as np
import pytest

from bertvision.bench.simulate import STEP_WINDOWS, draw_shards, extract_shares, shard_sizes, step_shares
from bertvision.store.writer import StoreWriter, shard_groups
from bertvision.tasks.examples import FloatArray, IntArray
from tiny_store import Source


def in_tokens(lengths: IntArray) -> FloatArray:
    return lengths.astype(np.float64)


def test_shards_hold_all_windows_with_lengths_of_the_sample() -> None:
    shards = draw_shards(np.array([10]), 300)
    assert shards.tokens.tolist() == [1280, 1280, 440]
    assert shards.pairs.tolist() == [12800, 12800, 4400]
    assert (shards.load.windows, shards.load.tokens, shards.load.pairs) == (300, 3000, 30000)


def test_lengths_are_drawn_alike_from_all_of_the_sample() -> None:
    shards = draw_shards(np.array([10, 20, 60]), 30_000)
    assert shards.load.tokens / 30_000 == pytest.approx(30, rel=0.02)
    assert shards.load.pairs / 30_000 == pytest.approx((100 + 400 + 3600) / 3, rel=0.03)


def test_many_windows_are_drawn_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertvision.bench.simulate._CHUNK_SHARDS", 2)
    assert draw_shards(np.array([3]), 700).tokens.tolist() == [384] * 5 + [180]


def test_the_last_shard_has_the_rest_of_the_windows() -> None:
    assert shard_sizes(300).tolist() == [128, 128, 44]
    assert shard_sizes(256).tolist() == [128, 128]
    assert shard_sizes(5).tolist() == [5]


def test_every_process_computes_every_so_many_th_group() -> None:
    operations = np.array([5.0, 1, 1, 1, 4])
    shares = extract_shares(operations, [range(2), range(2, 3), range(3, 5)], processes=2)
    assert (shares.slowest, shares.mean) == (6 + 5, 6)
    assert shares.waiting == pytest.approx(1 - 6 / 11)


def test_with_fewer_groups_than_processes_some_have_nothing_to_do() -> None:
    shares = extract_shares(np.array([2.0, 2.0]), [range(1), range(1, 2)], processes=8)
    assert (shares.slowest, shares.mean) == (2, 0.5)


def test_any_number_of_processes_takes_no_memory() -> None:
    shares = extract_shares(np.ones(2), [range(1), range(1, 2)], processes=10**12)
    assert (shares.mean, shares.slowest) == (2e-12, 1.0)
    steps = step_shares(np.array([10]), 64, in_tokens, batch=64, processes=10**12)
    assert steps.mean == pytest.approx(640e-12)
    assert steps.slowest == 10.0


def test_processes_share_windows_as_a_writer_does(tmp_path: Path) -> None:
    source = Source(*[3, 9, 4] * 200)
    lengths = np.array([3, 9, 4] * 200)
    writer = StoreWriter(tmp_path, source.content(), lengths)
    content = source.content()
    groups = shard_groups(np.add.reduceat(lengths, np.arange(0, 600, 128)), content.layers, content.width)
    per_shard = shard_sizes(600).astype(np.float64)
    shares = extract_shares(per_shard, groups, processes=2)
    assert shares.slowest == max(writer.windows(process=process, processes=2) for process in (0, 1))


def test_windows_of_one_length_keep_nobody_waiting() -> None:
    shares = step_shares(np.array([7]), 640, in_tokens, batch=64, processes=8)
    assert (shares.mean, shares.slowest) == (640 * 7 / 8, 640 * 7 / 8)


def test_a_batch_that_does_not_divide_keeps_some_waiting() -> None:
    # 10 windows in batches of 4 and of 2 for 4 processes: 1 + 1 + 1 rounds for 2.5 rounds of work
    shares = step_shares(np.array([5]), 10, in_tokens, batch=4, processes=4)
    assert (shares.mean, shares.slowest) == (12.5, 15)


def test_sorted_batches_keep_processes_waiting_less_than_unsorted_ones_would() -> None:
    sample = np.arange(40, 385)
    shares = step_shares(sample, 4096, in_tokens, batch=256, processes=8)
    lengths = np.random.default_rng(1).choice(sample, size=(16, 32, 8))
    unsorted = lengths.sum(axis=1)  # (steps, processes)
    assert 0 < shares.waiting < 0.3 * (1 - unsorted.mean() / unsorted.max(axis=1).mean())


def test_of_very_many_windows_a_part_stands_for_all() -> None:
    few, many = (
        step_shares(np.array([5, 9]), windows, in_tokens, batch=256, processes=2)
        for windows in (STEP_WINDOWS, 100 * STEP_WINDOWS)
    )
    assert many.mean == pytest.approx(100 * few.mean)
    assert many.slowest == pytest.approx(100 * few.slowest)
