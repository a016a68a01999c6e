"""What is peculiar to single GLUE files."""

from pathlib import Path

import pytest

from bertvision.errors import DataError
from bertvision.tasks.examples import Texts
from bertvision.tasks.glue import GLUE_TASKS
from bertvision.tasks.load import TaskData, load_task


def texts(data: TaskData, split: str) -> Texts:
    examples = data.splits[split]
    assert isinstance(examples, Texts)
    return examples


def put(path: Path, *lines: str) -> None:
    path.write_bytes("".join(line + "\n" for line in lines).encode())


def test_glue_has_nine_tasks() -> None:
    names = [task.name for task in GLUE_TASKS]
    assert sorted(names) == ["cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli"]


def test_the_main_metric_is_the_one_of_the_leaderboard() -> None:
    assert {task.name: task.metrics[0] for task in GLUE_TASKS} == {
        "cola": "matthews",
        "sst2": "accuracy",
        "mrpc": "f1",
        "qqp": "f1",
        "stsb": "pearson",
        "mnli": "accuracy",
        "qnli": "accuracy",
        "rte": "accuracy",
        "wnli": "accuracy",
    }


def test_cola_has_no_header_so_its_first_line_is_a_row(tmp_path: Path) -> None:
    put(tmp_path / "dev.tsv", "gj04\t1\t\tThe sailors rode.", "gj04\t0\t*\tThe sailors rodes.")
    dev = texts(load_task("cola", data=tmp_path), "dev")
    assert (dev.texts, dev.targets.tolist()) == (["The sailors rode.", "The sailors rodes."], [1, 0])


def test_the_byte_order_mark_of_mrpc_does_not_hide_its_first_column(tmp_path: Path) -> None:
    put(tmp_path / "dev.tsv", "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t10\t11\t" He said .\tHe said .')
    dev = texts(load_task("mrpc", data=tmp_path), "dev")
    assert (dev.texts, dev.pairs, dev.targets.tolist()) == (['" He said .'], ["He said ."], [1])


def test_mnli_reads_both_dev_files_whose_columns_differ_from_trains(tmp_path: Path) -> None:
    put(
        tmp_path / "train.tsv", "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label", "0\tx\ta\tb\tneutral\tneutral"
    )
    header = "index\tgenre\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label"
    put(tmp_path / "dev_matched.tsv", header, "0\tx\tc\td\tneutral\tentailment\tentailment")
    put(tmp_path / "dev_mismatched.tsv", header, "0\ty\te\tf\tneutral\tneutral\tcontradiction")
    data = load_task("mnli", data=tmp_path)
    assert {split: (texts(data, split).texts, texts(data, split).targets.tolist()) for split in data.splits} == {
        "train": (["a"], [1]),
        "dev": (["c"], [0]),
        "dev_mismatched": (["e"], [2]),
    }


QQP = (
    "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
    "1\t3\t4\tHow?\tIn what way?\t1",
    "2\t5\t6\tWhy?",
    "7\t8\t9\t\tWhen?\t0",
    "8\t10\t11\tWho?\tWhat?\t0",
)


def test_the_malformed_rows_of_qqp_are_reported(tmp_path: Path) -> None:
    put(tmp_path / "train.tsv", *QQP)
    with pytest.raises(DataError, match=r"1 bad row:\n  \S+/train\.tsv:3: 4 columns, expected 6\n.*--skip-bad"):
        load_task("qqp", data=tmp_path)


def test_the_malformed_rows_of_qqp_can_be_skipped_and_an_empty_question_is_kept(tmp_path: Path) -> None:
    put(tmp_path / "train.tsv", *QQP)
    train = texts(load_task("qqp", data=tmp_path, skip_bad=True), "train")
    assert (train.ids, train.texts, train.targets.tolist()) == (["1", "7", "8"], ["How?", "", "Who?"], [1, 0, 0])


def test_scores_of_stsb_lie_between_0_and_5(tmp_path: Path) -> None:
    put(
        tmp_path / "dev.tsv",
        "index\tsentence1\tsentence2\tscore",
        *(
            f"{number}\ta\tb\t{score}"
            for number, score in enumerate(["0.000", "5.000", "5.001", "-0.1", "nan", "x", ""])
        ),
    )
    data = load_task("stsb", data=tmp_path, skip_bad=True)
    assert texts(data, "dev").targets.tolist() == [0.0, 5.0]
    assert [row.problem for row in data.bad["dev"]] == [
        "score 5.001 is outside 0 to 5",
        "score -0.1 is outside 0 to 5",
        "score 'nan' is not finite",
        "score 'x' is not a number",
        "score '' is not a number",
    ]
