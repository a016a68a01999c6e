import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bertvision.encoder.snapshot import (
    SNAPSHOTS,
    Snapshot,
    find_snapshot,
    list_snapshots,
    read_snapshot,
    save_snapshot,
    split_snapshot,
)
from bertvision.errors import BertVisionError

CHANGES = {"layer.weight": torch.arange(6.0).reshape(2, 3)}


def write_head(folder: Path) -> None:
    """What stands for `save_head`."""
    (folder / "head.json").write_text("a head", encoding="utf-8")


def card(run: Path, fraction: float, *, encoder: str = "minilm") -> Snapshot:
    return Snapshot(
        folder=run / SNAPSHOTS / f"{fraction:g}",
        fraction=fraction,
        step=int(100 * fraction),
        encoder=encoder,
        fingerprint="0123456789abcdef",
        learn="top:3",
        task="sst2",
        head="last_layer",
        pooled=True,
        pool="mean",
        labels=("negative", "positive"),
        schedule="constant",
        total_epochs=3.0,
    )


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with four snapshots, which are not in the order of their names as text."""
    for fraction in (0.3, 10.0, 2.0, 1.0):
        save_snapshot(card(tmp_path / "run", fraction), CHANGES, write_head)
    return tmp_path / "run"


def names(run: Path) -> list[str]:
    return sorted(path.name for path in (run / SNAPSHOTS).iterdir())


def test_a_snapshot_comes_back_as_it_was_saved(run: Path) -> None:
    snapshot = read_snapshot(run / SNAPSHOTS / "0.3")
    assert snapshot == card(run, 0.3)
    assert torch.equal(snapshot.load_changes()["layer.weight"], CHANGES["layer.weight"])
    assert list(snapshot.load_changes()) == list(CHANGES)


def test_a_snapshot_s_folder_holds_its_card_its_changes_and_what_the_head_wrote(run: Path) -> None:
    folder = run / SNAPSHOTS / "0.3"
    assert sorted(path.name for path in folder.iterdir()) == ["encoder.safetensors", "head.json", "snapshot.json"]
    assert (folder / "head.json").read_text(encoding="utf-8") == "a head"


def test_snapshots_are_listed_in_the_order_of_their_fractions(run: Path) -> None:
    assert [snapshot.fraction for snapshot in list_snapshots(run)] == [0.3, 1.0, 2.0, 10.0]


@pytest.mark.parametrize(
    ("suffix", "fraction"),
    [("", 10.0), ("@0.3", 0.3), ("@1", 1.0), ("@1.0", 1.0), ("@2", 2.0), ("/snapshots/2", 2.0)],
)
def test_a_run_its_fraction_or_its_folder_means_a_snapshot(run: Path, suffix: str, fraction: float) -> None:
    snapshot = find_snapshot(f"{run}{suffix}")
    assert snapshot is not None
    assert snapshot.fraction == fraction


@pytest.mark.parametrize("name", ["minilm", "google-bert/bert-base-uncased", "me/model@main", "no/such/folder@0.3"])
def test_a_name_that_is_no_run_s_means_no_snapshot(name: str) -> None:
    assert find_snapshot(name) is None


def test_a_fraction_that_was_not_kept_is_answered_with_those_that_were(run: Path) -> None:
    with pytest.raises(BertVisionError, match=r"run has no snapshot at 0\.7; it has 0\.3, 1, 2, 10\."):
        find_snapshot(f"{run}@0.7")


def test_a_run_without_a_snapshot_says_so(tmp_path: Path) -> None:
    (tmp_path / "run" / SNAPSHOTS).mkdir(parents=True)
    with pytest.raises(BertVisionError, match="run has no snapshot yet"):
        find_snapshot(str(tmp_path / "run"))


def test_a_snapshot_saved_again_replaces_the_old_one_whole(run: Path) -> None:
    save_snapshot(card(run, 1.0), {"other.weight": torch.ones(1)}, write_head)
    assert list(read_snapshot(run / SNAPSHOTS / "1").load_changes()) == ["other.weight"]
    assert names(run) == ["0.3", "1", "10", "2"]


def test_a_full_disk_leaves_nothing_half_written_and_keeps_earlier_snapshots(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # the card comes last, when all tensors are written
    for fraction in (1.0, 3.0):
        with pytest.raises(BertVisionError, match=r"cannot be written: .*No space left.* Earlier snapshots are kept"):
            save_snapshot(card(run, fraction), {"other.weight": torch.ones(1)}, write_head)
    assert names(run) == ["0.3", "1", "10", "2"]
    assert list(read_snapshot(run / SNAPSHOTS / "1").load_changes()) == ["layer.weight"]


def test_a_head_that_cannot_be_written_leaves_nothing_half_written(run: Path) -> None:
    def fail(folder: Path) -> None:
        write_head(folder)
        raise OSError(errno.ENOSPC, "No space left on device")

    for fraction in (1.0, 3.0):
        with pytest.raises(BertVisionError, match=r"cannot be written: No space left on device\. Earlier snapshots"):
            save_snapshot(card(run, fraction), {"other.weight": torch.ones(1)}, fail)
    assert names(run) == ["0.3", "1", "10", "2"]
    assert list(read_snapshot(run / SNAPSHOTS / "1").load_changes()) == ["layer.weight"]


def test_a_kill_while_tensors_are_written_leaves_earlier_snapshots_and_is_cleared_away(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_tensors: Mapping[str, Tensor], path: Path, **_: object) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("bertvision.tensor_files.save_file", killed)
        with pytest.raises(KeyboardInterrupt):
            save_snapshot(card(run, 3.0), CHANGES, write_head)
    assert [snapshot.fraction for snapshot in list_snapshots(run)] == [0.3, 1.0, 2.0, 10.0]
    save_snapshot(card(run, 3.0), CHANGES, write_head)
    assert names(run) == ["0.3", "1", "10", "2", "3"]


def test_a_whole_snapshot_that_was_not_put_in_its_place_is_not_listed(run: Path) -> None:
    (run / SNAPSHOTS / "10").rename(run / SNAPSHOTS / ".10.part")
    assert [snapshot.folder.name for snapshot in list_snapshots(run)] == ["0.3", "1", "2"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("I am a file", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"the snapshot .*run/snapshots/1 cannot be written: Not a directory"):
        save_snapshot(card(tmp_path / "run", 1.0), CHANGES, write_head)


@pytest.mark.parametrize("other", [1, 99, None])
def test_a_snapshot_of_another_format_is_refused(run: Path, other: int | None) -> None:
    path = run / SNAPSHOTS / "1" / "snapshot.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"format": other}), encoding="utf-8")
    with pytest.raises(BertVisionError, match=rf"1/snapshot\.json has format {other}, 2 is expected\."):
        find_snapshot(f"{run}@1")


@pytest.mark.parametrize("name", ["format", "labels", "step"])
def test_a_card_that_lacks_something_is_named(run: Path, name: str) -> None:
    path = run / SNAPSHOTS / "1" / "snapshot.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content[name]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(BertVisionError, match=rf"1/snapshot\.json cannot be read \('{name}' is missing\)\."):
        find_snapshot(f"{run}@1")


def test_a_damaged_card_is_named(run: Path) -> None:
    (run / SNAPSHOTS / "1" / "snapshot.json").write_text("{", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"1/snapshot\.json cannot be read"):
        find_snapshot(f"{run}/snapshots/1")


@pytest.mark.parametrize("damage", [b"", b"half a file"])
def test_damaged_tensors_are_named(run: Path, damage: bytes) -> None:
    (run / SNAPSHOTS / "1" / "encoder.safetensors").write_bytes(damage)
    with pytest.raises(BertVisionError, match=r"1/encoder\.safetensors cannot be read"):
        read_snapshot(run / SNAPSHOTS / "1").load_changes()


def test_missing_tensors_are_named(run: Path) -> None:
    (run / SNAPSHOTS / "1" / "encoder.safetensors").unlink()
    with pytest.raises(BertVisionError, match=r"1/encoder\.safetensors cannot be read"):
        read_snapshot(run / SNAPSHOTS / "1").load_changes()


def test_the_name_of_a_runs_folder_may_have_the_sign_of_snapshots(tmp_path: Path) -> None:
    for fraction in (0.3, 1.0):
        save_snapshot(card(tmp_path / "me@home", fraction), CHANGES, write_head)
    last, first = find_snapshot(str(tmp_path / "me@home")), find_snapshot(str(tmp_path / "me@home@0.3"))
    assert last is not None
    assert first is not None
    assert (last.fraction, first.fraction) == (1.0, 0.3)


@pytest.mark.parametrize(
    ("name", "run", "snapshot"),
    [
        ("runs/tuned", "runs/tuned", ""),
        ("runs/tuned@0.3", "runs/tuned", "@0.3"),
        ("me@work/runs/heads", "me@work/runs/heads", ""),
        ("me@work/runs/tuned@0.3", "me@work/runs/tuned", "@0.3"),
    ],
)
def test_only_the_last_part_of_a_path_names_a_snapshot(name: str, run: str, snapshot: str) -> None:
    assert split_snapshot(name) == (Path(run), snapshot)


def test_a_folder_that_is_there_names_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / "me@work").mkdir()
    assert split_snapshot(str(tmp_path / "me@work")) == (tmp_path / "me@work", "")
    assert split_snapshot(str(tmp_path / "me@work@0.3")) == (tmp_path / "me@work", "@0.3")
