"""What a store takes, against what is allowed and what is free."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from bertvision.errors import BertVisionError
from bertvision.store.codec import Keep
from bertvision.store.room import check_disk, check_room, store_bytes
from folders import everything
from tiny_store import Source, small_shards, write_store

# 128 tokens of 1,000,000 layers × 4 numbers × 2 bytes in each of 2 windows: 2.05 GB in one shard
LARGE = Source(128, 128).content(layers=1_000_000)


def have(patch: pytest.MonkeyPatch, free: int) -> list[Path]:
    """Let a disk have so much room; the folders that were asked about."""
    asked: list[Path] = []

    def usage(path: Path) -> SimpleNamespace:
        asked.append(path)
        return SimpleNamespace(free=free)

    patch.setattr("shutil.disk_usage", usage)
    return asked


@pytest.mark.parametrize("keep", ["fp16", "bf16", "int8"])
def test_a_store_never_takes_more_than_was_said(keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_shards(monkeypatch)
    source = Source(*[5, 2, 7] * 40)
    write_store(tmp_path, source, keep=keep)
    taken = sum(len(content) for content in everything(tmp_path).values())
    assert source.content(keep=keep).bytes < taken < store_bytes(source.content(keep=keep))


def test_room_is_counted_over_all_splits() -> None:
    check_room([LARGE, LARGE], None)
    check_room([LARGE, LARGE], 2 * store_bytes(LARGE))
    with pytest.raises(
        BertVisionError,
        match=r"would take 4\.1 GB; --max-disk allows 4 GB\. Allow more, or use --keep int8 \(3\.14 GB\), "
        r"fewer --layers \(4\.1 KB each\) or no store: bertvision fit computes states anew\.",
    ):
        check_room([LARGE, LARGE], 4_000_000_000)


def test_less_than_one_shard_is_told_as_such() -> None:
    with pytest.raises(BertVisionError, match=r"--max-disk allows 2 GB, less than one shard \(2\.05 GB\)\. Allow more"):
        check_room([LARGE, Source(1).content()], 2_000_000_000)


def test_nothing_is_advised_that_is_asked_for_already() -> None:
    with pytest.raises(BertVisionError, match=r"Allow more, or use no store") as error:
        check_room([Source(128).content(layers=1, keep="int8")], 100)
    assert "int8" not in str(error.value)


def test_a_full_disk_is_told_with_what_is_free_and_what_takes_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = have(monkeypatch, 1_500_000_000)
    with pytest.raises(
        BertVisionError,
        match=r"would take 2\.05 GB; 1\.5 GB are free on the disk of .*\. Make room, or use another disk, "
        r"--keep int8 \(1\.57 GB\), fewer --layers",
    ):
        check_disk([LARGE], tmp_path / "not" / "there" / "yet")
    assert asked == [tmp_path]


def test_what_is_there_counts_as_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have(monkeypatch, 1_500_000_000)
    check_disk([LARGE], tmp_path, 600_000_000)
    with pytest.raises(BertVisionError, match=r"would take 1\.55 GB more; 1\.5 GB are free"):
        check_disk([LARGE], tmp_path, 500_000_000)


def test_a_relative_folder_has_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = have(monkeypatch, 0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BertVisionError, match=rf"0 KB are free on the disk of {tmp_path}"):
        check_disk([LARGE], Path("stores/x"))
    assert asked == [tmp_path]
