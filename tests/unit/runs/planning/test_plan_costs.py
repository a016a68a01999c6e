"""What each source costs, worked out by hand."""

import pytest

from bertvision.runs.planning.plan_costs import Candidate, Limits, RowRates, RowWork, Source
from tiny_plan import RATES, WORK, work

FREE = Limits()


def test_a_stream_encodes_every_batch_of_every_epoch() -> None:
    found = WORK.stream(RATES, FREE)
    assert found.encode == 5000 * 1.0 + 500 * 0.5
    assert found.heads == pytest.approx(500 + 500 * 0.1 / 3)  # outputs alone cost a third
    assert (found.write, found.read, found.disk) == (0, 0, 0)
    assert found.memory == 100 * 7 * 10 * 4 * 2
    assert found.seconds == pytest.approx(5250 + 516.667, abs=1e-3)


def test_a_new_store_encodes_everything_once_and_is_read_for_every_batch() -> None:
    found = WORK.new_store(RATES, FREE, "fp16", range(7))
    assert found.encode == 1200 * 0.6
    assert found.write == pytest.approx(1200 * 7 * 0.01)
    assert found.read == pytest.approx(5500 * 7 * 0.001)
    assert found.disk == 1200 * 7 * 10 * 2
    assert found.memory == 200 * 7 * 10 * 4 * 2  # a shard is larger than a batch
    assert found.heads == WORK.stream(RATES, FREE).heads
    assert found.seconds == pytest.approx(720 + 84 + 38.5 + 516.667, abs=1e-3)


def test_eight_bits_take_a_byte_for_a_number_and_two_for_a_scale() -> None:
    assert WORK.new_store(RATES, FREE, "int8", range(7)).disk == 1200 * 7 * (10 + 2)


def test_fewer_layers_are_written_and_read_and_the_encoder_stops_early() -> None:
    found = work(layers=range(1, 4)).new_store(RATES, FREE, "fp16", range(1, 4))
    assert found.encode == 1200 * 0.5
    assert found.write == pytest.approx(1200 * 3 * 0.01)
    assert found.read == pytest.approx(5500 * 3 * 0.001)
    assert found.disk == 1200 * 3 * 10 * 2


def test_a_store_that_is_there_costs_no_encoding_and_no_disk() -> None:
    found = WORK.old_store(RATES, FREE, "stores/squad2", "int8", range(7))
    assert (found.encode, found.write, found.disk) == (0, 0, 0)
    assert found.read == pytest.approx(5500 * 7 * 0.002)
    assert found.source == Source(kind="store", keep="int8", layers="0..6", folder="stores/squad2")


def test_a_store_that_is_larger_than_memory_is_read_from_the_disk() -> None:
    small, large = Limits(free_memory=168_001), Limits(free_memory=167_999)  # it takes 168,000 bytes
    for limits, seconds in ((small, 38.5), (large, 3850)):
        assert WORK.new_store(RATES, limits, "fp16", range(7)).read == pytest.approx(seconds)
        assert WORK.old_store(RATES, limits, "x", "fp16", range(7)).read == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        (Limits(disk=168_000, free_disk=200_000), None),
        (Limits(disk=167_999), "--max-disk allows 168 KB"),
        (Limits(disk=200_000, free_disk=186_000), "the disk has 186 KB left"),  # a tenth stays free
        (Limits(free_disk=187_000), None),
        (Limits(memory=111_999), "--max-memory allows 112 KB"),
        (Limits(memory=200_000, free_memory=100_000), "the machine has 100 KB left"),
    ],
)
def test_limits_to_disk_and_memory_are_kept(limits: Limits, problem: str | None) -> None:
    assert WORK.new_store(RATES, limits, "fp16", range(7)).problem == problem


def test_a_stream_needs_memory_alone() -> None:
    assert WORK.stream(RATES, Limits(disk=0, free_disk=0, memory=56_000)).problem is None
    assert WORK.stream(RATES, Limits(memory=55_999)).problem == "--max-memory allows 56 KB"
    assert WORK.old_store(RATES, Limits(disk=0, memory=55_999), "x", "fp16", range(7)).problem is not None


def test_rows_are_encoded_once_and_copied_to_be_solved() -> None:
    rows = RowWork(tokens=900, trained=300, scored=60, rows=120, numbers=50, copied=100 * 50)
    found = rows.in_memory(RowRates(encode=0.5, heads=0.1, slowest=("", 0.0)), Limits(memory=64_000))
    assert (found.encode, found.disk) == (450, 0)
    assert found.heads == pytest.approx(32)
    assert found.memory == 120 * 50 * 4 + 2 * 100 * 50 * 4
    assert (found.source, found.problem) == (Source(kind="memory"), None)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Source(kind="stream"), "stream"),
        (Source(kind="memory"), "in memory"),
        (Source(kind="store", keep="int8", layers="0..6"), "store, int8"),
        (Source(kind="store", keep="fp16", layers="0..6", folder="stores/rte"), "stores/rte, fp16"),
    ],
)
def test_a_source_has_a_name(source: Source, words: str) -> None:
    assert Candidate(source=source).source.words == words


def test_the_tighter_limit_to_memory_counts() -> None:
    assert Limits(memory=5, free_memory=7).most_memory == 5
    assert Limits(free_memory=7).most_memory == 7
    assert Limits().most_memory == float("inf")
