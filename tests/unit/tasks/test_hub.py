"""Data sets from the hub, on local folders that `datasets` reads as it reads the hub's."""

import sys
from pathlib import Path

import datasets
import pyarrow as pa
import pytest
from pyarrow import parquet

from bertvision.errors import DataError, MissingExtraError
from bertvision.tasks.examples import Answer, Questions, Texts
from bertvision.tasks.load import TaskData, load_task


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))


def put(folder: Path, split: str, rows: list[dict[str, object]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows), folder / f"{split}.parquet")


def texts(data: TaskData, split: str) -> Texts:
    examples = data.splits[split]
    assert isinstance(examples, Texts)
    return examples


def squad_row(key: str, texts: list[str], starts: list[int]) -> dict[str, object]:
    context = "Ada wrote it."
    answers = {"text": texts, "answer_start": starts}
    return {"id": key, "title": "Ada", "context": context, "question": "Who?", "answers": answers}


# --- texts


def test_class_numbers_of_the_hub_are_ours(tmp_path: Path) -> None:
    folder = tmp_path / "rte"
    put(folder, "train", [{"sentence1": "a", "sentence2": "b", "label": 0, "idx": 0}])
    put(folder, "validation", [{"sentence1": "c", "sentence2": "d", "label": 1, "idx": 0}])
    data = load_task("rte", data=f"hub:{folder}")
    assert (texts(data, "train").texts, texts(data, "train").pairs) == (["a"], ["b"])
    assert (texts(data, "train").targets.tolist(), texts(data, "dev").targets.tolist()) == ([0], [1])


def test_csv_files_and_label_words_are_read_too(tmp_path: Path) -> None:
    folder = tmp_path / "rte"
    folder.mkdir()
    (folder / "train.csv").write_text('sentence1,sentence2,label\n"a, b",c,not_entailment\n', encoding="utf-8")
    data = load_task("rte", data=f"hub:{folder}")
    assert (texts(data, "train").texts, texts(data, "train").targets.tolist()) == (["a, b"], [1])


def test_scores_are_not_taken_for_class_numbers(tmp_path: Path) -> None:
    put(tmp_path / "stsb", "train", [{"sentence1": "a", "sentence2": "b", "label": 3.5}])
    assert texts(load_task("stsb", data=f"hub:{tmp_path / 'stsb'}"), "train").targets.tolist() == [3.5]


def test_both_dev_splits_of_mnli_are_read(tmp_path: Path) -> None:
    for number, split in enumerate(["train", "validation_matched", "validation_mismatched"]):
        rows: list[dict[str, object]] = [{"premise": "a", "hypothesis": "b", "label": number}]
        put(tmp_path / "mnli" / "data", f"{split}-00000-of-00001", rows)  # as the hub names its files
    data = load_task("mnli", data=f"hub:{tmp_path / 'mnli'}")
    assert {split: texts(data, split).targets.tolist() for split in data.splits} == {
        "train": [0],
        "dev": [1],
        "dev_mismatched": [2],
    }


@pytest.mark.parametrize("label", [-1, 2], ids=["hidden test label", "one class too many"])
def test_a_class_number_outside_the_set_is_a_bad_row_with_its_place(tmp_path: Path, label: int) -> None:
    put(tmp_path / "sst2", "train", [{"sentence": "a", "label": 1}, {"sentence": "b", "label": label}])
    with pytest.raises(DataError, match=rf"1 bad row:\n  \S+/sst2/train:1: label '{label}' is not one of 0, 1"):
        load_task("sst2", data=f"hub:{tmp_path / 'sst2'}")


def test_an_empty_cell_is_a_bad_row(tmp_path: Path) -> None:
    put(tmp_path / "sst2", "train", [{"sentence": "a", "label": 1}, {"sentence": None, "label": 1}])
    data = load_task("sst2", data=f"hub:{tmp_path / 'sst2'}", skip_bad=True)
    assert [row.problem for row in data.bad["train"]] == ["column 'sentence' is missing"]


def test_columns_other_than_expected_are_listed(tmp_path: Path) -> None:
    put(tmp_path / "sst2", "train", [{"text": "a", "label": 1}])
    with pytest.raises(DataError, match="sst2/train has the columns text, label; 'sentence' is expected"):
        load_task("sst2", data=f"hub:{tmp_path / 'sst2'}")


# --- questions


def test_questions_are_read_with_their_answers(tmp_path: Path) -> None:
    put(tmp_path / "squad", "train", [squad_row("a", ["Ada", "it"], [0, 10]), squad_row("b", [], [])])
    data = load_task("squad2", data=f"hub:{tmp_path / 'squad'}")
    questions = data.splits["train"]
    assert isinstance(questions, Questions)
    assert questions.answers == [(Answer("Ada", 0), Answer("it", 10)), ()]
    assert (questions.ids, questions.contexts, questions.titles) == (["a", "b"], ["Ada wrote it."], ["Ada"])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (squad_row("b", ["Ada"], [4]), r"\(id b\): answer 'Ada' is not at character 4"),
        (squad_row("b", ["Ada", "it"], [0]), r"\(id b\): an answer with the text 'text' and the number"),
        (squad_row("b", ["Ada"], [0, 10]), r"\(id b\): an answer with the text 'text' and the number"),
        (squad_row("b", ["Ada"], [0]) | {"context": None}, "a row with 'context' and 'answers' is expected"),
        (squad_row("b", ["Ada"], [0]) | {"answers": None}, "a row with 'context' and 'answers' is expected"),
        (squad_row("a", ["Ada"], [0]), r"\(id a\): id 'a' stands at \S+/squad/train:0 already"),
    ],
)
def test_a_bad_question_is_named_with_its_row(tmp_path: Path, row: dict[str, object], problem: str) -> None:
    put(tmp_path / "squad", "train", [squad_row("a", ["Ada"], [0]), row])
    with pytest.raises(DataError, match=rf"1 bad row:\n  \S+/squad/train:1:? ?{problem}"):
        load_task("squad2", data=f"hub:{tmp_path / 'squad'}")


def test_version_1_refuses_a_question_without_an_answer(tmp_path: Path) -> None:
    put(tmp_path / "squad", "train", [squad_row("a", ["Ada"], [0]), squad_row("b", [], [])])
    with pytest.raises(DataError, match=r"train:1 \(id b\): no answer, but SQuAD 1\.1 has one"):
        load_task("squad1", data=f"hub:{tmp_path / 'squad'}")


# --- what is not there


def test_a_split_that_the_hub_lacks_is_a_notice(tmp_path: Path) -> None:
    put(tmp_path / "sst2", "train", [{"sentence": "a", "label": 1}])
    assert load_task("sst2", data=f"hub:{tmp_path / 'sst2'}").notices == (
        "sst2 has no dev split on the hub.",
        "sst2 train has 1 rows here; the official file has 67,349.",
    )


def test_splits_of_other_names_are_listed(tmp_path: Path) -> None:
    put(tmp_path / "sst2", "test", [{"sentence": "a", "label": 1}])
    with pytest.raises(DataError, match="sst2 has the splits test; expected train, validation"):
        load_task("sst2", data=f"hub:{tmp_path / 'sst2'}")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionError("Couldn't reach 'nyu-mll/glue' on the Hub\nlong trace"), r"Couldn't reach .* on the Hub"),
        (ValueError(), "ValueError"),
    ],
)
def test_without_the_hub_the_files_to_get_are_named(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    asked: list[tuple[str, str | None]] = []

    def offline(path: str, name: str | None) -> None:
        asked.append((path, name))
        raise error

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(
        DataError,
        match=rf"^nyu-mll/glue cannot be had from the hub \({reason}\)\.\n"
        r"Offline, put the files there yourself: --data DIR with CoLA/train\.tsv, CoLA/dev\.tsv \(plain or \.gz\)\.$",
    ):
        load_task("cola", data="hub")
    assert asked == [("nyu-mll/glue", "cola")]


def test_a_folder_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere cannot be had from the hub \("):
        load_task("sst2", data=f"hub:{tmp_path / 'nowhere'}")


def test_a_task_that_the_hub_does_not_have_says_so() -> None:
    with pytest.raises(
        DataError, match=r"the hub has no data set for quora\. Put the files there yourself: .*cs224n/quora-train\.csv"
    ):
        load_task("quora", data="hub")


def test_without_datasets_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"reading sst2 from the hub needs the package 'datasets'.*\[data\]"):
        load_task("sst2", data="hub")
