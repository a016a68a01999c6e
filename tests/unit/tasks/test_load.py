"""load_task: every row read or reported; what the user should know is a notice."""

import json
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError, DataError, UnknownNameError
from bertvision.tasks.examples import Texts
from bertvision.tasks.load import TASKS, check_task_name, find_task, load_task
from bertvision.tasks.own import OwnColumns

SST2_TRAIN_SIZE = "sst2 train has 2 rows here; the official file has 67,349."


@pytest.fixture
def sst2(tmp_path: Path) -> Path:
    (tmp_path / "train.tsv").write_text("sentence\tlabel\ngood \t1\nbad\t0\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nfine\t1\n", encoding="utf-8")
    return tmp_path


def test_texts_are_kept_as_they_are_with_their_class_numbers(sst2: Path) -> None:
    data = load_task("sst2", data=sst2)
    train = data.splits["train"]
    assert isinstance(train, Texts)
    assert (train.texts, train.targets.tolist()) == (["good ", "bad"], [1, 0])
    assert data.task is TASKS["sst2"]
    assert data.bad == {"train": [], "dev": []}


def test_a_path_may_be_text(sst2: Path) -> None:
    assert len(load_task("sst2", data=str(sst2)).splits["train"]) == 2


def test_sizes_other_than_the_official_ones_are_notices(sst2: Path) -> None:
    assert load_task("sst2", data=sst2).notices == (
        SST2_TRAIN_SIZE,
        "sst2 dev has 1 rows here; the official file has 872.",
    )


def test_a_size_that_is_official_is_no_notice(tmp_path: Path) -> None:
    rows = "".join(f"{number}\ta\tb\t{number % 2}\n" for number in range(71))
    (tmp_path / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + rows, encoding="utf-8")
    assert load_task("wnli", data=tmp_path).notices == ("wnli has no train split here (looked for train.tsv).",)


def test_a_missing_split_is_a_notice(sst2: Path) -> None:
    (sst2 / "dev.tsv").unlink()
    data = load_task("sst2", data=sst2)
    assert list(data.splits) == ["train"]
    assert data.notices == ("sst2 has no dev split here (looked for dev.tsv).", SST2_TRAIN_SIZE)


def test_one_file_is_one_split_without_a_notice_about_others(sst2: Path) -> None:
    data = load_task("sst2", data=sst2 / "train.tsv")
    assert (list(data.splits), data.notices) == (["train"], (SST2_TRAIN_SIZE,))


def test_a_bad_row_stops_with_its_place_and_the_way_on(sst2: Path) -> None:
    (sst2 / "dev.tsv").write_text("sentence\tlabel\nfine\t1\nworse\t2\n", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"(?s)^1 bad row:\n  \S+/dev\.tsv:3: label '2' is not one of 0, 1\nMend .* with --skip-bad\.$"
    ):
        load_task("sst2", data=sst2)


def test_bad_rows_of_all_splits_are_counted_and_the_first_five_shown(sst2: Path) -> None:
    for split in ("train", "dev"):
        (sst2 / f"{split}.tsv").write_text("sentence\tlabel\n" + "x\n" * 4, encoding="utf-8")
    with pytest.raises(DataError, match=r"(?s)^8 bad rows:\n.*train\.tsv:5: .*dev\.tsv:2: 1 columns.*… and 3 more\n"):
        load_task("sst2", data=sst2)


def test_skipped_rows_are_left_out_kept_in_bad_and_told(sst2: Path) -> None:
    (sst2 / "dev.tsv").write_text("sentence\tlabel\nfine\t1\nworse\t2\n", encoding="utf-8")
    data = load_task("sst2", data=sst2, skip_bad=True)
    assert len(data.splits["dev"]) == 1
    assert [row.problem for row in data.bad["dev"]] == ["label '2' is not one of 0, 1"]
    assert data.notices[0] == f"1 bad row skipped:\n  {sst2}/dev.tsv:3: label '2' is not one of 0, 1"


def test_several_skipped_rows_are_told_together(sst2: Path) -> None:
    (sst2 / "dev.tsv").write_text("sentence\tlabel\nfine\t1\nworse\t2\nx\n", encoding="utf-8")
    assert load_task("sst2", data=sst2, skip_bad=True).notices[0].startswith("2 bad rows skipped:\n")


def test_skipping_helps_no_split_without_a_good_row(sst2: Path) -> None:
    (sst2 / "dev.tsv").write_text("sentence\tlabel\nworse\t2\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"sst2 dev: no readable row is left in {sst2}\.\n  \S+/dev\.tsv:2: label '2'"):
        load_task("sst2", data=sst2, skip_bad=True)


def test_a_file_with_a_header_alone_has_no_row(sst2: Path) -> None:
    (sst2 / "dev.tsv").write_text("sentence\tlabel\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"^sst2 dev: no readable row is left in {sst2}\.$"):
        load_task("sst2", data=sst2)


def test_without_data_the_built_in_set_is_used_and_said_to_be() -> None:
    data = load_task("sst2")
    assert list(data.splits) == ["train", "dev"]
    assert data.notices == ("sst2: the small built-in set is used; --data DIR takes yours, --data hub the hub's.",)


def test_the_built_in_set_asked_for_by_name_needs_no_notice() -> None:
    assert load_task("sst2", data="builtin").notices == ()


def test_an_unknown_task_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown task 'squad-2'\. Did you mean 'squad2'\? .* own, "):
        load_task("squad-2")
    with pytest.raises(UnknownNameError, match="unknown task 'nothing like it'"):
        check_task_name("nothing like it")
    check_task_name("own")


def test_columns_are_named_for_own_files_only(sst2: Path) -> None:
    with pytest.raises(BertVisionError, match="columns can be named for the task 'own' only; the files of sst2 have"):
        load_task("sst2", data=sst2, columns=OwnColumns(text="sentence"))
    assert len(load_task("sst2", data=sst2, columns=OwnColumns()).splits) == 2


@pytest.mark.parametrize("data", [None, "builtin", "hub", "hub:someone/reviews"])
def test_own_needs_files(data: str | None) -> None:
    with pytest.raises(BertVisionError, match="the task 'own' needs --data FILE or --data DIR with your files"):
        load_task("own", data=data)


def test_own_files_in_a_folder_are_loaded_by_split(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\nx,1\ny,0\n", encoding="utf-8")
    (tmp_path / "test.jsonl").write_text('{"text": "z", "label": 0}\n', encoding="utf-8")
    data = load_task("own", data=tmp_path)
    assert {split: len(examples) for split, examples in data.splits.items()} == {"train": 2, "test": 1}
    assert data.notices == ()


def test_what_is_asked_is_known_without_any_data(tmp_path: Path) -> None:
    assert find_task("squad2", data=tmp_path / "nowhere") is TASKS["squad2"]
    with pytest.raises(UnknownNameError, match=r"unknown task 'squad3'"):
        find_task("squad3")


def test_what_is_asked_of_own_files_is_found_in_them_though_rows_are_bad(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text("text,label\nx,0.5\n,1\ny,2\n", encoding="utf-8")
    assert find_task("own", data=path).kind == "scores"
    assert find_task("own", data=path, columns=OwnColumns(kind="labels")).labels == ("0.5", "1", "2")
    with pytest.raises(BertVisionError, match=r"the task 'own' needs --data FILE"):
        find_task("own")


def test_examples_that_stand_in_train_too_are_a_notice(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na b,up\nc,down\n", encoding="utf-8")
    (tmp_path / "dev.csv").write_text("text,label\nd,up\nc,up\na b,down\n", encoding="utf-8")
    (notice,) = load_task("own", data=tmp_path).notices
    assert "own: 2 of 3 dev examples stand in train, too, first id '1'" in notice
    (tmp_path / "dev.csv").write_text("text,label\nd,up\na  b,down\n", encoding="utf-8")
    assert load_task("own", data=tmp_path).notices == ()


def test_a_pair_stands_in_train_only_with_both_its_texts(tmp_path: Path) -> None:
    columns = OwnColumns(text_pair="pair")
    (tmp_path / "train.csv").write_text("text,pair,label\na,b,up\nc,d,down\n", encoding="utf-8")
    (tmp_path / "dev.csv").write_text("text,pair,label\na,d,up\nc,b,up\n", encoding="utf-8")
    assert load_task("own", data=tmp_path, columns=columns).notices == ()
    (tmp_path / "dev.csv").write_text("text,pair,label\na,d,up\nc,d,up\n", encoding="utf-8")
    (notice,) = load_task("own", data=tmp_path, columns=columns).notices
    assert "1 of 2 dev examples stand in train" in notice


def test_a_question_stands_in_train_only_with_its_context(tmp_path: Path) -> None:
    def write(split: str, context: str) -> None:
        answers = [{"text": "Ada", "answer_start": 0}]
        asked = [{"id": split, "question": "Who?", "answers": answers}]
        articles = [{"title": "t", "paragraphs": [{"context": context, "qas": asked}]}]
        (tmp_path / f"{split}.json").write_text(json.dumps({"data": articles}), encoding="utf-8")

    write("train", "Ada wrote.")
    for context, found in (("Ada drew.", 0), ("Ada wrote.", 1)):
        write("dev", context)
        notices = [notice for notice in load_task("squad2", data=tmp_path).notices if "stand in train" in notice]
        assert len(notices) == found
