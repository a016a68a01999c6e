import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from bertvision.errors import DataError
from bertvision.evaluation.prediction_files import read_answers, read_no_answer, read_targets
from bertvision.tasks.load import TASKS
from conftest import make_tags

CLASSES, ENTAILED, SIMILARITY = TASKS["cola"], TASKS["rte"], TASKS["stsb"]
IDS = ["0", "1", "2"]


def written(folder: Path, name: str, content: object) -> Path:
    """A file: text as it is, anything else as JSON; gzipped where the name says so."""
    text = content if isinstance(content, str) else json.dumps(content)
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["answers.json", "answers.json.gz"])
def test_answers_are_an_object_of_texts(tmp_path: Path, name: str) -> None:
    answers = {"q1": "naïve", "q2": ""}
    assert read_answers(written(tmp_path, name, answers)) == answers


@pytest.mark.parametrize(("content", "kind"), [([], "a list"), ("1", "1"), ("null", "null"), ('"x"', "text")])
def test_answers_that_are_no_object_are_refused(tmp_path: Path, content: object, kind: str) -> None:
    path = written(tmp_path, "answers.json", content)
    with pytest.raises(
        DataError, match=rf'answers\.json: an object {{"question id": "answer"}} is expected, got {kind}\.'
    ):
        read_answers(path)


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "null"), (["cat"], "a list"), ({"text": "cat"}, "an object"), (3, "3"), (True, "True")]
)
def test_an_answer_that_is_no_text_is_refused(tmp_path: Path, value: object, kind: str) -> None:
    path = written(tmp_path, "answers.json", {"q1": "cat", "q2": value})
    with pytest.raises(DataError, match=rf"the answer to 'q2' is {kind}, text is expected \(\"\" for no answer\)\."):
        read_answers(path)


def test_no_answer_values_are_an_object_of_numbers(tmp_path: Path) -> None:
    values = read_no_answer(written(tmp_path, "na.json", {"q1": 1, "q2": -0.5}))
    assert values == {"q1": 1.0, "q2": -0.5}
    assert all(isinstance(value, float) for value in values.values())


def test_no_answer_values_that_are_no_object_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "na.json", [0.5])
    with pytest.raises(DataError, match=r'na\.json: an object {"question id": number} is expected, got a list\.'):
        read_no_answer(path)


def test_a_whole_number_too_large_for_a_float_is_no_no_answer_value(tmp_path: Path) -> None:
    path = written(tmp_path, "na.json", f'{{"q1": {10**400}}}')
    with pytest.raises(DataError, match=r"the value of 'q1' is 10+, a finite number is expected"):
        read_no_answer(path)


@pytest.mark.parametrize(
    ("value", "shown"), [('"0.5"', "'0.5'"), ("true", "True"), ("null", "None"), ("NaN", "nan"), ("Infinity", "inf")]
)
def test_a_no_answer_value_that_is_no_finite_number_is_refused(tmp_path: Path, value: str, shown: str) -> None:
    path = written(tmp_path, "na.json", f'{{"q1": 0, "q2": {value}}}')
    with pytest.raises(DataError, match=rf"na\.json: the value of 'q2' is {shown}, a finite number is expected\."):
        read_no_answer(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("by_id.json", {"2": 1, "0": "0", "1": 1, "extra": 0}),
        ("list.json", [0, 1, 1]),
        ("list.json.gz", [0, 1, 1]),
        ("lines.txt", "0\n1\n1\n"),
        ("lines.txt", "\ufeff0 \r\n 1\r\n1\r\n\r\n"),
        ("lines.tsv", "0\n1\n1"),
        ("lines.txt.gz", "0\n1\n1\n"),
        ("submission.tsv", "index\tprediction\n1\t1\n0\t0\n2\t1\n"),
        ("submission.tsv.gz", "index\tprediction\n1\t1\n0\t0\n2\t1\n"),
        ("labels.csv", "id,label\n2,1\n0,0\n1,1\n"),
        ("no_ids.csv", "text,score\nx,0\ny,1\nz,1\n"),
        ("rows.jsonl", '{"id": 1, "prediction": 1}\n{"id": 0, "prediction": 0}\n{"id": 2, "prediction": 1.0}\n'),
    ],
)
def test_predictions_of_every_format_come_in_the_order_of_the_golds(tmp_path: Path, name: str, content: object) -> None:
    predictions = read_targets(written(tmp_path, name, content), CLASSES, IDS)
    assert predictions.tolist() == [0, 1, 1]
    assert predictions.dtype.kind == "i"


def test_predictions_are_read_from_parquet_tables(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "predictions.parquet"
    parquet.write_table(pa.table({"index": [2, 1, 0], "prediction": ["1", "1", "0"]}), path)
    assert read_targets(path, CLASSES, IDS).tolist() == [0, 1, 1]


def test_the_column_prediction_comes_before_label_and_score(tmp_path: Path) -> None:
    path = written(tmp_path, "table.csv", "score,label,prediction\n9,0,1\n9,0,1\n9,0,0\n")
    assert read_targets(path, CLASSES, IDS).tolist() == [1, 1, 0]


def test_labels_are_words_or_class_numbers(tmp_path: Path) -> None:
    path = written(tmp_path, "words.txt", "not_entailment\nentailment\n1\n")
    assert read_targets(path, ENTAILED, IDS).tolist() == [1, 0, 1]


def test_a_number_is_no_class_number_where_labels_are_numbers(tmp_path: Path) -> None:
    stars = replace(CLASSES, labels=("1", "3", "5"))
    path = written(tmp_path, "stars.txt", "1\n5\n0\n")
    with pytest.raises(DataError, match=r"stars\.txt: prediction of id '2': label '0' is not one of 1, 3, 5\."):
        read_targets(path, stars, IDS)


def test_a_tag_may_begin_as_a_list_does(tmp_path: Path) -> None:
    path = written(tmp_path, "lines.txt", "[a;b\nb\n\n")
    assert read_targets(path, make_tags("[a", "b", separator=";"), IDS).tolist() == [[1, 1], [0, 1], [0, 0]]


def test_scores_may_lie_outside_the_limits_of_the_golds(tmp_path: Path) -> None:
    predictions = read_targets(written(tmp_path, "scores.json", [-0.25, 5.5, "3"]), SIMILARITY, IDS)
    assert predictions.tolist() == [-0.25, 5.5, 3.0]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("by_id.json", {"2": [], "0": ["a", "b"], "1": ["b"]}),
        ("list.json", [["b", "a"], ["b"], []]),
        ("list.json", ["a;b", "b", ""]),
        ("lines.txt", "a;b\nb\n\n"),
        ("lines.txt", "a;b\r\nb\r\n\r\n"),
        ("table.csv", "id,prediction\n2,\n0,a;b\n1,b\n"),
        ("as_predict_writes.tsv", 'index\tprediction\n0\t["a", "b"]\n1\t["b"]\n2\t[]\n'),
        ("rows.jsonl", '{"prediction": ["a", "b"]}\n{"prediction": ["b"]}\n{"prediction": []}\n'),
    ],
)
def test_tags_are_lists_or_separated_text_and_may_be_none(tmp_path: Path, name: str, content: object) -> None:
    predictions = read_targets(written(tmp_path, name, content), make_tags("a", "b", separator=";"), IDS)
    assert predictions.tolist() == [[1, 1], [0, 1], [0, 0]]


def test_a_tag_that_is_no_label_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "list.json", [["a"], ["a", "c"], []])
    with pytest.raises(DataError, match=r"list\.json: prediction of id '1': label 'c' is not one of a, b\."):
        read_targets(path, make_tags("a", "b"), IDS)


@pytest.mark.parametrize("content", ["0\n1\n", "0\n1\n1\n0\n"])
def test_another_number_of_lines_than_golds_is_refused(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, "lines.txt", content)
    lines = content.count("\n")
    with pytest.raises(DataError, match=rf"lines\.txt has {lines} predictions, the gold file 3 rows\. Same order\?"):
        read_targets(path, CLASSES, IDS)


def test_rows_without_a_prediction_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "by_id.json", {"0": 0, "7": 1})
    message = r"by_id\.json: 2 of 3 rows have no prediction, first id '1'\. Is it for another file\?"
    with pytest.raises(DataError, match=message):
        read_targets(path, CLASSES, IDS)


@pytest.mark.parametrize(
    ("cell", "problem"), [("2", "label '2' is not one of 0, 1"), ("maybe", "label 'maybe' is not one of 0, 1")]
)
def test_a_prediction_that_is_no_label_is_refused(tmp_path: Path, cell: str, problem: str) -> None:
    path = written(tmp_path, "lines.txt", f"0\n{cell}\n1\n")
    with pytest.raises(DataError, match=rf"lines\.txt: prediction of id '1': {problem}\."):
        read_targets(path, CLASSES, IDS)


def test_a_class_number_beyond_the_last_class_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "lines.txt", "0\n1\n2\n")
    with pytest.raises(DataError, match="id '2': label '2' is not one of entailment, not_entailment"):
        read_targets(path, ENTAILED, IDS)


def test_an_empty_prediction_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="prediction of id '1': the label is empty"):
        read_targets(written(tmp_path, "lines.txt", "0\n\n1\n"), CLASSES, IDS)


@pytest.mark.parametrize(
    ("cell", "problem"), [("high", "could not convert string to float: 'high'"), ("nan", "score 'nan' is not finite")]
)
def test_a_prediction_that_is_no_score_is_refused(tmp_path: Path, cell: str, problem: str) -> None:
    path = written(tmp_path, "lines.txt", f"0\n{cell}\n1\n")
    with pytest.raises(DataError, match=f"prediction of id '1': {problem}"):
        read_targets(path, SIMILARITY, IDS)


@pytest.mark.parametrize(("content", "kind"), [("3", "3"), ("null", "null"), ('"x"', "text")])
def test_json_that_is_no_list_or_object_is_refused(tmp_path: Path, content: str, kind: str) -> None:
    path = written(tmp_path, "predictions.json", content)
    message = rf"predictions\.json: a list of predictions or an object by id is expected, got {kind}\."
    with pytest.raises(DataError, match=message):
        read_targets(path, CLASSES, IDS)


def test_a_table_without_a_column_of_predictions_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "table.tsv", "index\tmy_prediction\n0\t1\n")
    message = (
        r"table\.tsv: a column called prediction or label or score is expected, got \('index', 'my_prediction'\)\."
    )
    with pytest.raises(DataError, match=message):
        read_targets(path, CLASSES, IDS)


def test_a_table_with_a_bad_row_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "table.tsv", "index\tprediction\n0\t1\n1\n2\t0\n")
    with pytest.raises(DataError, match=r"table\.tsv:3: 1 columns, expected 2\."):
        read_targets(path, CLASSES, IDS)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.txt does not exist\. Check the path\."):
        read_targets(tmp_path / "none.txt", CLASSES, IDS)


def test_a_table_that_has_an_id_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "labels.tsv", "index\tprediction\n0\t1\n1\t0\n1\t1\n")
    with pytest.raises(DataError, match="1 ids stand there twice"):
        read_targets(path, CLASSES, IDS)
