"""What is told of a store."""

from pathlib import Path

import pytest

from bertvision.cli.store_info import describe, splits_of
from bertvision.errors import BertVisionError
from bertvision.store.manifest import Manifest, Shard, write_content, write_manifest
from tiny_store import Source

SHARDS = tuple(
    Shard(file=f"00000{number}.safetensors", windows=1, tokens=5, bytes=300 + number, sha256="aa") for number in (0, 1)
)
CONTENT = Source(5, 5).content(first_layer=1)


def test_a_store_is_described_in_one_flat_row() -> None:
    assert describe(Manifest(content=CONTENT, shards=SHARDS)) == {
        "task": "squad2",
        "encoder": "tiny",
        "fingerprint": "abc",
        "windows": 2,
        "tokens": 10,
        "layers": "1..3",
        "width": 4,
        "keep": "fp16",
        "pool": None,
        "shards": 2,
        "bytes": 601,
    }


def test_the_splits_of_a_store_are_its_folders_finished_or_not(tmp_path: Path) -> None:
    write_content(tmp_path / "train", CONTENT)
    write_manifest(tmp_path / "dev", Manifest(content=CONTENT, shards=SHARDS))
    (tmp_path / "notes").mkdir()
    (tmp_path / "manifest.txt").touch()
    assert splits_of(tmp_path) == [tmp_path / "dev", tmp_path / "train"]


def test_a_split_is_a_store_of_its_own(tmp_path: Path) -> None:
    write_manifest(tmp_path / "dev", Manifest(content=CONTENT, shards=SHARDS))
    assert splits_of(tmp_path / "dev") == [tmp_path / "dev"]


@pytest.mark.parametrize("name", ["", "nowhere"])
def test_a_folder_without_any_store_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"is no store\. Make one with `bertvision extract`"):
        splits_of(tmp_path / name)
