"""What a store says of itself."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.provenance import file_digest
from bertvision.store.manifest import (
    Manifest,
    Shard,
    read_content,
    read_manifest,
    windows_digest,
    write_content,
    write_manifest,
)
from tiny_store import Source

CONTENT = Source(5, 2, 3).content()
SHARDS = (
    Shard(file="000000.safetensors", windows=2, tokens=7, bytes=300, sha256="aa"),
    Shard(file="000001.safetensors", windows=1, tokens=3, bytes=200, sha256="bb"),
)
STATISTICS = Shard(file="statistics.safetensors", windows=0, tokens=0, bytes=50, sha256="cc")


def test_content_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_content(tmp_path) is None
    write_content(tmp_path, CONTENT)
    assert read_content(tmp_path) == CONTENT


@pytest.mark.parametrize("statistics", [None, STATISTICS])
def test_a_manifest_is_read_as_it_was_written(statistics: Shard | None, tmp_path: Path) -> None:
    manifest = Manifest(content=CONTENT, shards=SHARDS, statistics=statistics)
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert manifest.bytes == (500 if statistics is None else 550)


def test_bytes_are_tokens_times_bytes_per_token() -> None:
    assert CONTENT.bytes == (5 + 2 + 3) * 3 * 4 * 2


def test_a_folder_without_a_store_is_no_store(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(BertVisionError, match=r"is no store: it has no manifest\.json\. Make one with `bertvision"):
            read_manifest(folder)


def test_a_store_without_a_manifest_is_not_finished(tmp_path: Path) -> None:
    write_content(tmp_path, CONTENT)
    with pytest.raises(BertVisionError, match=r"has no manifest: it is not finished\. Go on with the same `bertvision"):
        read_manifest(tmp_path)


def test_another_format_is_refused(tmp_path: Path) -> None:
    write_content(tmp_path, CONTENT)
    path = tmp_path / "content.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"format": 2}), encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"content\.json has format 2, 1 is expected\. Make another store"):
        read_content(tmp_path)


@pytest.mark.parametrize("text", ["", '{"format": 1, "content"', "\udcff"])
def test_a_manifest_that_is_not_json_is_refused_by_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BertVisionError, match=r"manifest\.json cannot be read \("):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "shards", [SHARDS[::-1], SHARDS[:1], (SHARDS[0], SHARDS[0]), (SHARDS[0], replace(SHARDS[1], windows=2))]
)
def test_shards_that_are_not_those_of_all_windows_in_order_are_refused(
    shards: tuple[Shard, ...], tmp_path: Path
) -> None:
    write_manifest(tmp_path, Manifest(content=CONTENT, shards=shards))
    with pytest.raises(
        BertVisionError, match=r"manifest\.json cannot be read \(its shards are not those of all its win"
    ):
        read_manifest(tmp_path)


def test_a_manifest_that_says_something_else_than_the_store_began_with_is_refused(tmp_path: Path) -> None:
    write_content(tmp_path, CONTENT)
    write_manifest(tmp_path, Manifest(content=replace(CONTENT, first_layer=1), shards=SHARDS))
    expected = (
        r"manifest\.json and content\.json beside it contradict each other: first_layer is 1, 0 is asked for\. Put back"
    )
    with pytest.raises(BertVisionError, match=expected):
        read_manifest(tmp_path)


def test_differences_are_told_in_words() -> None:
    other = Source(5, 2, 3).content(keep="int8", layers=2)
    assert CONTENT.differences(CONTENT) == {}
    assert CONTENT.differences(other) == {
        "keep": "keep is fp16, int8 is asked for",
        "layers": "layers is 3, 2 is asked for",
    }


def test_the_digest_of_a_file_is_its_sha256(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    # of FIPS 180-4
    assert file_digest(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_digest_of_windows_sees_tokens_and_bounds() -> None:
    ids, bounds = np.array([7, 8, 9], dtype=np.int32), np.array([0, 1, 3])
    whole = hashlib.sha256(b"\7\0\0\0\x08\0\0\0\x09\0\0\0" + bytes(8) + b"\1" + bytes(7) + b"\3" + bytes(7))
    assert windows_digest(ids, bounds) == whole.hexdigest()[:16]
    assert windows_digest(ids[::-1], bounds) != windows_digest(ids, bounds)
    assert windows_digest(ids, np.array([0, 2, 3])) != windows_digest(ids, bounds)
    assert windows_digest(np.repeat(ids, 2)[::2], bounds) == windows_digest(ids, bounds)
