"""Shards one after the other, and going on after a kill."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from bertvision.errors import BertVisionError
from bertvision.provenance import file_digest
from bertvision.store.codec import Keep
from bertvision.store.manifest import read_manifest
from bertvision.store.reader import StoreReader
from bertvision.store.writer import StoreWriter, load_statistics
from close import FLOAT32
from folders import differences, everything
from tiny_store import Source, change_byte, cut_short, small_shards, write_store

LENGTHS = (5, 2, 7, 1, 3, 3, 6, 4, 2)
"""Of 9 windows: two shards of four, and one of one."""

KEEPS: list[Keep] = ["fp16", "bf16", "int8"]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)


def opened(folder: Path, source: Source, **changes: Any) -> StoreWriter:  # noqa: ANN401 - any field
    """A writer that is ready to write."""
    writer = StoreWriter(folder, source.content(**changes), source.lengths)
    writer.begin()
    writer.measure(source)
    return writer


def test_a_store_is_shards_of_windows_end_to_end_without_padding(tmp_path: Path) -> None:
    source = Source(*LENGTHS)
    assert write_store(tmp_path / "a" / "store", source) == [4, 8, 9]
    folder = tmp_path / "a" / "store"
    assert sorted(everything(folder)) == [
        *(f"00000{number}.safetensors" for number in range(3)),
        "content.json",
        "manifest.json",
    ]
    shard = load_file(folder / "000001.safetensors")
    assert shard["bounds"].tolist() == [0, 3, 6, 12, 16]
    assert torch.equal(shard["states"], torch.cat(source.windows[4:8]).half())
    manifest = read_manifest(folder)
    assert manifest.content == source.content()
    assert [(shard.file[:6], shard.windows, shard.tokens) for shard in manifest.shards] == [
        ("000000", 4, 15),
        ("000001", 4, 16),
        ("000002", 1, 2),
    ]
    for listed in manifest.shards:
        assert (folder / listed.file).stat().st_size == listed.bytes
        assert file_digest(folder / listed.file) == listed.sha256


@pytest.mark.parametrize("keep", KEEPS)
def test_the_size_is_what_was_said_before_and_a_little_for_each_shard(keep: Keep, tmp_path: Path) -> None:
    source = Source(*LENGTHS)
    write_store(tmp_path, source, keep=keep)
    said = source.content(keep=keep).bytes
    assert said < read_manifest(tmp_path).bytes < said + 4 * 500


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("whole", [0, 1, 2])
def test_a_killed_writer_goes_on_after_the_last_whole_shard_and_ends_the_same(
    keep: Keep, whole: int, tmp_path: Path
) -> None:
    sample = int(keep == "int8")
    write_store(tmp_path / "whole", Source(*LENGTHS), keep=keep)
    with pytest.raises(KeyboardInterrupt):
        write_store(tmp_path / "store", Source(*LENGTHS, calls=whole + sample), keep=keep)
    with pytest.raises(BertVisionError, match="it is not finished"):
        StoreReader(tmp_path / "store")
    rest = Source(*LENGTHS)
    assert write_store(tmp_path / "store", rest, keep=keep) == [4, 8, 9]
    sampled = [list(range(9))] if keep == "int8" and not whole else []  # statistics that no shard was made with
    assert rest.asked == sampled + [[0, 1, 2, 3], [4, 5, 6, 7], [8]][whole:]
    assert differences(tmp_path / "store", tmp_path / "whole") == []


def test_a_finished_store_is_not_computed_again(tmp_path: Path) -> None:
    write_store(tmp_path, Source(*LENGTHS), keep="int8")
    before = everything(tmp_path)
    again = Source(*LENGTHS)
    write_store(tmp_path, again, keep="int8")
    assert again.asked == []
    assert everything(tmp_path) == before


def test_statistics_of_16_bit_states_are_computed_in_single_precision(tmp_path: Path) -> None:
    source = Source(*LENGTHS)
    source.windows = [window.bfloat16() for window in source.windows]  # as a GPU computes them
    write_store(tmp_path, source, keep="int8")
    states = torch.cat(source.windows).float()
    found = load_statistics(tmp_path)
    torch.testing.assert_close(found.mean, states.mean(dim=0), rtol=FLOAT32, atol=FLOAT32)
    torch.testing.assert_close(found.deviation, states.std(dim=0, correction=0), rtol=FLOAT32, atol=FLOAT32)


def test_int8_is_standardised_by_windows_spread_over_all(tmp_path: Path) -> None:
    source = Source(*[2] * 200)
    write_store(tmp_path, source, keep="int8")
    sample = source.asked[0]
    assert len(sample) == 64
    assert (sample[0], sample[-1]) == (0, 199)
    assert max(after - before for before, after in pairwise(sample)) <= 4
    states = torch.cat([source.windows[row] for row in sample])
    found = load_statistics(tmp_path)
    torch.testing.assert_close(found.mean, states.sum(dim=0) / len(states))
    torch.testing.assert_close(found.deviation, states.var(dim=0, correction=0).sqrt())


@pytest.mark.parametrize(("length", "windows"), [(1, 64), (100, 40), (300, 16)])
def test_long_windows_make_a_sample_of_fewer(length: int, windows: int, tmp_path: Path) -> None:
    source = Source(*[length] * 80)
    opened(tmp_path, source, keep="int8")
    assert [len(rows) for rows in source.asked] == [windows]


@pytest.mark.parametrize("harm", [cut_short, change_byte, Path.unlink])
@pytest.mark.parametrize("file", ["000001.safetensors", "statistics.safetensors"])
def test_what_is_broken_in_a_finished_store_and_no_more_is_written_again(
    harm: Callable[[Path], None], file: str, tmp_path: Path
) -> None:
    write_store(tmp_path, Source(*LENGTHS), keep="int8")
    before = everything(tmp_path)
    harm(tmp_path / file)
    again = Source(*LENGTHS)
    write_store(tmp_path, again, keep="int8")
    assert again.asked == ([[4, 5, 6, 7]] if file[0] == "0" else [list(range(9))])
    assert everything(tmp_path) == before


def test_a_truncated_shard_of_an_unfinished_store_is_written_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_store(tmp_path, Source(*LENGTHS, calls=2))
    cut_short(tmp_path / "000000.safetensors")
    rest = Source(*LENGTHS)
    write_store(tmp_path, rest)
    assert rest.asked == [[0, 1, 2, 3], [8]]
    assert StoreReader(tmp_path).broken() == []


def test_a_folder_with_another_content_is_refused_with_the_differences(tmp_path: Path) -> None:
    write_store(tmp_path, Source(*LENGTHS))
    before = everything(tmp_path)
    with pytest.raises(
        BertVisionError,
        match=r"holds another store: fingerprint is abc, xyz is asked for; keep is fp16, int8 is asked for\. "
        r"Use another --store",
    ):
        write_store(tmp_path, Source(*LENGTHS), fingerprint="xyz", keep="int8")
    assert everything(tmp_path) == before


def test_a_folder_with_foreign_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"is there already and is no store\. Use another --store"):
        write_store(tmp_path, Source(*LENGTHS))
    assert everything(tmp_path) == {"thesis.txt": b"precious"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("precious", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"content\.json cannot be written"):
        write_store(tmp_path / "store", Source(*LENGTHS))
    assert everything(tmp_path) == {"store": b"precious"}


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    assert write_store(tmp_path, Source(2)) == [1]


def test_a_full_disk_leaves_whole_shards_alone_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_tensors: dict[str, Tensor], path: Path, **_more: object) -> None:
        path.write_bytes(b"half of ")
        raise OSError(errno.ENOSPC, "device is full")

    writing = opened(tmp_path, Source(*LENGTHS)).write(Source(*LENGTHS))
    assert next(writing).file == "000000.safetensors"
    before = everything(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("bertvision.tensor_files.save_file", full)
        with pytest.raises(
            BertVisionError,
            match=rf"000001\.safetensors cannot be written: {os.strerror(errno.ENOSPC)}\. Whole shards are kept; make "
            "room, and run the same command again",
        ):
            next(writing)
    assert everything(tmp_path) == before
    rest = Source(*LENGTHS)
    write_store(tmp_path, rest)
    assert rest.asked == [[4, 5, 6, 7], [8]]


def test_an_error_of_safetensors_own_kind_while_saving_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_tensors: object, **_more: object) -> None:
        raise SafetensorError("I/O error 7")

    monkeypatch.setattr("bertvision.tensor_files.save_file", fail)
    with pytest.raises(BertVisionError, match=r"000000\.safetensors cannot be written: I/O error 7\. Whole shards"):
        write_store(tmp_path, Source(*LENGTHS))


def test_a_shard_with_a_state_too_large_for_fp16_is_kept_as_bf16(tmp_path: Path) -> None:
    source = Source(*LENGTHS)
    source.windows[5][0, 1, 2] = -70000
    write_store(tmp_path / "whole", source)
    assert [shard.keep for shard in read_manifest(tmp_path / "whole").shards] == [None, "bf16", None]
    shard = load_file(tmp_path / "whole" / "000001.safetensors")
    assert torch.equal(shard["states"], torch.cat(source.windows[4:8]).bfloat16())
    hidden = StoreReader(tmp_path / "whole").batch(np.array([0, 5])).states
    assert torch.equal(hidden[0, :, :5], source.windows[0].half().float().transpose(0, 1))
    assert torch.equal(hidden[1, :, :3], source.windows[5].bfloat16().float().transpose(0, 1))
    killed = Source(*LENGTHS, calls=2)
    killed.windows = source.windows
    with pytest.raises(KeyboardInterrupt):
        write_store(tmp_path / "store", killed)
    write_store(tmp_path / "store", source)
    assert differences(tmp_path / "store", tmp_path / "whole") == []


def test_a_state_that_is_not_finite_ends_it_and_keeps_whole_shards(tmp_path: Path) -> None:
    source = Source(*LENGTHS)
    source.windows[5][0, 1, 2] = float("nan")
    with pytest.raises(BertVisionError, match="a state is not finite"):
        write_store(tmp_path, source)
    assert sorted(everything(tmp_path)) == ["000000.safetensors", "content.json"]


def test_statistics_that_are_not_whole_are_told(tmp_path: Path) -> None:
    with pytest.raises(
        BertVisionError, match=r"statistics\.safetensors cannot be read .*\. Run the same extract again"
    ):
        load_statistics(tmp_path)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("harm", [cut_short, change_byte, Path.unlink])
def test_no_shard_stays_under_statistics_that_it_was_not_made_with(
    *, harm: Callable[[Path], None], finished: bool, tmp_path: Path
) -> None:
    """On another machine, say, states differ by a hair, and so do statistics that are measured there."""
    with suppress(KeyboardInterrupt):
        write_store(tmp_path / "store", Source(*LENGTHS, calls=None if finished else 3), keep="int8")
    harm(tmp_path / "store" / "statistics.safetensors")
    other = Source(*LENGTHS, seed=1)
    write_store(tmp_path / "store", other, keep="int8")
    assert other.asked == [list(range(9)), [0, 1, 2, 3], [4, 5, 6, 7], [8]]
    write_store(tmp_path / "other", Source(*LENGTHS, seed=1), keep="int8")
    assert differences(tmp_path / "store", tmp_path / "other") == []


def test_a_store_is_not_finished_while_its_statistics_are_others(tmp_path: Path) -> None:
    write_store(tmp_path, Source(*LENGTHS), keep="int8")
    (tmp_path / "statistics.safetensors").unlink()
    for calls in (0, 1, 2):  # killed while measuring, before any shard, and in the middle
        with pytest.raises(KeyboardInterrupt):
            write_store(tmp_path, Source(*LENGTHS, seed=1, calls=calls), keep="int8")
        with pytest.raises(BertVisionError, match="it is not finished"):
            StoreReader(tmp_path)
    write_store(tmp_path, Source(*LENGTHS, seed=1), keep="int8")
    write_store(tmp_path / "other", Source(*LENGTHS, seed=1), keep="int8")
    (tmp_path / "other").rename(tmp_path.with_name("other"))
    assert differences(tmp_path, tmp_path.with_name("other")) == []


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("processes", [2, 3, 5])
def test_shares_of_several_processes_make_the_store_of_one(processes: int, keep: Keep, tmp_path: Path) -> None:
    write_store(tmp_path / "one", Source(*LENGTHS), keep=keep)
    writer = opened(tmp_path / "several", Source(*LENGTHS), keep=keep)
    sources = [Source(*LENGTHS) for _ in range(processes)]
    shares = [list(writer.write(source, process=number, processes=processes)) for number, source in enumerate(sources)]
    writer.finish(shard for share in reversed(shares) for shard in share)
    asked = sorted(rows for source in sources for rows in source.asked)
    assert asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert sources[1].asked[0] == [4, 5, 6, 7]
    counts = [writer.windows(process=number, processes=processes) for number in range(processes)]
    assert counts == [sum(shard.windows for shard in share) for share in shares]
    assert differences(tmp_path / "several", tmp_path / "one") == []


def test_shards_are_computed_together_as_far_as_memory_allows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertvision.store.writer.GROUP_SHARDS", 2)
    source = Source(*LENGTHS)
    write_store(tmp_path / "two", source)
    assert source.asked == [list(range(8)), [8]]
    monkeypatch.setattr("bertvision.store.writer.GROUP_SHARDS", 3)
    # 15 tokens, 16 tokens and 2 tokens of 3 layers × 4 numbers × 4 bytes
    for room, expected in ((33 * 48, [list(range(9))]), (32 * 48, [list(range(8)), [8]])):
        monkeypatch.setattr("bertvision.store.writer.GROUP_BYTES", room)
        source = Source(*LENGTHS)
        write_store(tmp_path / str(room), source)
        assert source.asked == expected
        assert differences(tmp_path / str(room), tmp_path / "two") == []


def test_what_is_missing_is_computed_with_its_group_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another batch its states would differ in their last bits."""
    monkeypatch.setattr("bertvision.store.writer.GROUP_SHARDS", 2)
    write_store(tmp_path, Source(*LENGTHS))
    before = everything(tmp_path)
    (tmp_path / "000001.safetensors").unlink()
    unread = (tmp_path / "000000.safetensors").stat().st_mtime_ns
    again = Source(*LENGTHS)
    write_store(tmp_path, again)
    assert again.asked == [list(range(8))]
    assert everything(tmp_path) == before
    assert (tmp_path / "000000.safetensors").stat().st_mtime_ns == unread


def test_what_a_killed_writer_left_half_written_is_cleared_away(tmp_path: Path) -> None:
    tmp_path.joinpath(".content.json.a1b2").write_bytes(b"{")  # killed in its very first write
    write_store(tmp_path, Source(*LENGTHS))
    before = everything(tmp_path)
    for name in (".000001.safetensors.part", ".manifest.json.a1b2", ".tmpsy47eG"):  # as earlier versions left them, too
        (tmp_path / name).write_bytes(b"half")
    (tmp_path / ".000002.safetensors.part").mkdir()
    (tmp_path / ".000002.safetensors.part" / ".tmpsy47eG").write_bytes(b"half")
    writer = StoreWriter(tmp_path, Source(*LENGTHS).content(), Source(*LENGTHS).lengths)
    shards = sum(len(content) for name, content in before.items() if name.startswith("0"))
    assert writer.bytes_there == shards + 4 * len(b"half")  # room that there will be
    write_store(tmp_path, Source(*LENGTHS))
    assert everything(tmp_path) == before
    assert writer.bytes_there == shards
    assert not list(tmp_path.glob(".*"))
    assert len(before) == 5
