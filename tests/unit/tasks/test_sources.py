"""Files are found by their official names, and what was looked for is in the message."""

import os
from pathlib import Path

import pytest

from bertvision.errors import DataError
from bertvision.tasks.load import TASKS
from bertvision.tasks.sources import BUILTIN_FOLDER, BUILTIN_LAYOUT, find_builtin, find_local, find_own, split_of
from bertvision.tasks.tables import format_of

SST2, SQUAD2, MNLI = TASKS["sst2"], TASKS["squad2"], TASKS["mnli"]
TOO_LONG = "a" * 300  # most systems refuse names of more than 255 bytes


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x", encoding="utf-8")
    return path


# --- tasks with official files


@pytest.mark.parametrize("folder", ["", "SST-2", "glue/SST-2"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_files_are_found_in_the_folder_itself_or_below_a_data_root(tmp_path: Path, folder: str, ending: str) -> None:
    paths = {split: touch(tmp_path / folder / f"{split}.tsv{ending}") for split in ("train", "dev")}
    found = find_local(SST2, tmp_path)
    assert (found.paths, found.missing, found.layout) == (paths, {}, SST2.layout)


def test_the_official_name_comes_before_others_and_plain_before_gzipped(tmp_path: Path) -> None:
    for name in ("train.json", "train-v2.0.json.gz", "train-v2.0.json", "dev.json", "dev-v2.0.json.gz"):
        touch(tmp_path / name)
    found = find_local(SQUAD2, tmp_path)
    assert {split: path.name for split, path in found.paths.items()} == {
        "train": "train-v2.0.json",
        "dev": "dev-v2.0.json.gz",
    }


def test_splits_that_are_not_there_are_listed_with_the_names_looked_for(tmp_path: Path) -> None:
    touch(tmp_path / "MNLI" / "dev_matched.tsv")
    found = find_local(MNLI, tmp_path)
    assert list(found.paths) == ["dev"]
    assert found.missing == {"train": ("train.tsv",), "dev_mismatched": ("dev_mismatched.tsv",)}


def test_one_file_is_the_split_that_its_name_says(tmp_path: Path) -> None:
    path = touch(tmp_path / "dev_mismatched.tsv.gz")
    assert find_local(MNLI, path).paths == {"dev_mismatched": path}


def test_a_place_that_is_not_there_is_answered_with_the_files_to_put_there(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"nowhere does not exist\. Expected: --data DIR with SST-2/train\.tsv, SST-2/dev\.tsv"
    ):
        find_local(SST2, tmp_path / "nowhere")


def test_a_folder_without_the_files_is_answered_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "train.tsv").mkdir()  # a folder of that name is no file
    with pytest.raises(DataError, match=r"holds no file of sst2\. Expected: --data DIR with SST-2/train\.tsv"):
        find_local(SST2, tmp_path)


def test_a_path_that_the_system_refuses_is_an_error_of_ours() -> None:
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        find_local(SST2, Path(TOO_LONG))
    with pytest.raises(DataError, match="cannot be read: File name too long"):
        find_own(Path(TOO_LONG))


def test_a_folder_that_must_not_be_read_is_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: path != tmp_path)  # since root may read everything
    with pytest.raises(DataError, match=f"{tmp_path} cannot be read: Permission denied"):
        find_local(SST2, tmp_path)
    with pytest.raises(DataError, match=f"{tmp_path} cannot be read: Permission denied"):
        find_own(tmp_path)


# --- built-in sets


def test_every_built_in_folder_has_a_layout_and_both_splits() -> None:
    assert {path.name for path in BUILTIN_FOLDER.iterdir() if path.is_dir()} == set(BUILTIN_LAYOUT)
    for name in {task.builtin for task in TASKS.values()} - {None}:
        task = next(task for task in TASKS.values() if task.builtin == name)
        assert all(path.is_file() for path in find_builtin(task).paths.values())
        assert list(find_builtin(task).paths) == ["train", "dev"]


def test_a_task_without_a_built_in_set_says_which_files_to_give() -> None:
    with pytest.raises(
        DataError, match=r"no built-in set for cola\. Name a folder: --data DIR with CoLA/train\.tsv, CoLA/dev\.tsv"
    ):
        find_builtin(TASKS["cola"])


# --- the user's own files


def test_own_files_are_found_by_split_names(tmp_path: Path) -> None:
    for name in ("train.csv", "Validation.jsonl.gz", "test.v2.parquet", "notes.md", "extra.csv"):
        touch(tmp_path / name)
    assert {split: path.name for split, path in find_own(tmp_path).items()} == {
        "train": "train.csv",
        "dev": "Validation.jsonl.gz",
        "test": "test.v2.parquet",
    }


def test_own_files_in_a_folder_may_have_every_ending_that_a_single_file_may_have(tmp_path: Path) -> None:
    for name in ("TRAIN.CSV", "dev.txt", "test.TSV.gz", "train.md", "test"):
        touch(tmp_path / name)
    found = find_own(tmp_path)
    assert {split: path.name for split, path in found.items()} == {
        "train": "TRAIN.CSV",
        "dev": "dev.txt",
        "test": "test.TSV.gz",
    }
    assert [format_of(path) for path in found.values()] == [".csv", ".tsv", ".tsv"]


def test_two_files_for_one_split_are_refused(tmp_path: Path) -> None:
    touch(tmp_path / "dev.csv")
    touch(tmp_path / "valid.csv")
    with pytest.raises(DataError, match=r"dev\.csv and valid\.csv could both be dev\. Leave one there\."):
        find_own(tmp_path)


def test_a_folder_without_split_names_is_refused(tmp_path: Path) -> None:
    touch(tmp_path / "reviews.csv")
    with pytest.raises(DataError, match=r"holds no file called train, dev or test with one of the endings \.tsv"):
        find_own(tmp_path)


def test_own_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.csv does not exist\. A file, or a folder with train and dev"):
        find_own(tmp_path / "nowhere.csv")


def test_a_pipe_is_neither_a_file_nor_a_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=r"pipe\.csv is neither a file nor a folder\. A file, or"):
        find_own(tmp_path / "pipe.csv")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("reviews.csv", "train"),
        ("train.csv", "train"),
        ("my-dev.csv", "dev"),
        ("DEV_2.jsonl.gz", "dev"),
        ("valid.tsv", "dev"),
        ("reviews_validation.tsv", "dev"),
        ("test1.csv", "test"),
        ("policy-dev-test.json.gz", "dev"),
        ("latest.csv", "train"),
        ("devices.csv", "train"),
        ("invalidated.csv", "train"),
    ],
)
def test_a_single_own_file_is_the_split_that_a_word_of_its_name_says(name: str, split: str) -> None:
    assert split_of(Path(name), None) == split
