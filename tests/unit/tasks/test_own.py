"""The user's own files: formats, columns, labels and the kind of task, found or told."""

import csv
import io
import json
import math
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from bertvision.errors import BertVisionError, DataError
from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.own import OwnColumns, own_task
from bertvision.tasks.task import TableLayout, Task

ROWS = [("one, two", "glad"), ("first\nsecond", "sad"), ('a "b" c', "glad")]


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


def task_of(path: Path, columns: OwnColumns | None = None) -> Task:
    return own_task({"train": path}, columns or OwnColumns())


def texts(data: TaskData, split: str = "train") -> Texts:
    examples = data.splits[split]
    assert isinstance(examples, Texts)
    return examples


def as_csv(delimiter: str) -> str:
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter).writerows([("text", "label"), *ROWS])
    return stream.getvalue()


OBJECTS = [{"text": text, "label": label} for text, label in ROWS]
FILES = {
    "a.csv": as_csv(","),
    "semicolon.csv": as_csv(";"),
    "a.tsv": as_csv("\t"),
    "a.json": json.dumps(OBJECTS),
    "nested.json": json.dumps({"data": OBJECTS}),
    "a.jsonl": "\n".join(json.dumps(row) for row in OBJECTS),
}


@pytest.mark.parametrize("name", [*FILES, "a.parquet"])
def test_every_format_gives_the_same_examples(tmp_path: Path, name: str) -> None:
    if name in FILES:
        write(tmp_path / name, FILES[name])
    else:
        parquet.write_table(pa.Table.from_pylist(OBJECTS), tmp_path / name)
    data = load_task("own", data=tmp_path / name)
    assert data.task.labels == ("glad", "sad")
    assert list(zip(texts(data).texts, texts(data).targets.tolist(), strict=True)) == [
        ("one, two", 0),
        ("first\nsecond", 1),
        ('a "b" c', 0),
    ]


def test_json_in_squads_form_gives_questions(tmp_path: Path) -> None:
    qas = [{"id": "1", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}]
    content = {"data": [{"title": "t", "paragraphs": [{"context": "Ada wrote.", "qas": qas}]}]}
    data = load_task("own", data=write(tmp_path / "a.json", json.dumps(content)))
    assert (data.task.kind, data.task.metrics) == ("spans", ("f1", "exact"))
    assert isinstance(data.splits["train"], Questions)
    assert data.splits["train"].golds() == {"1": ["Ada"]}


def test_labels_come_from_train_and_others_in_dev_are_bad_rows(tmp_path: Path) -> None:
    write(tmp_path / "dev.csv", "text,label\nx,glad\ny,mad\n")
    write(tmp_path / "train.csv", "text,label\nx,sad\ny,glad\n")
    data = load_task("own", data=tmp_path, skip_bad=True)
    assert data.task.labels == ("glad", "sad")
    assert [str(row) for row in data.bad["dev"]] == [f"{tmp_path}/dev.csv:3: label 'mad' is not one of glad, sad"]
    assert len(data.splits["dev"]) == 1


def test_labels_come_from_train_whatever_the_order_of_the_files(tmp_path: Path) -> None:
    dev = write(tmp_path / "dev.csv", "text,label\nx,glad\ny,mad\n")
    train = write(tmp_path / "train.csv", "text,label\nx,sad\ny,glad\n")
    assert own_task({"dev": dev, "train": train}, OwnColumns()).labels == ("glad", "sad")


def test_without_train_labels_come_from_the_first_file(tmp_path: Path) -> None:
    data = load_task("own", data=write(tmp_path / "my-test.csv", "text,label\nx,b\ny,a\n"))
    assert (list(data.splits), data.task.labels) == (["test"], ("a", "b"))


# --- columns


@pytest.mark.parametrize(
    ("header", "pair"),
    [
        ("text,label", None),
        ("sentence,score", None),
        ("label,sentence1,sentence2", "sentence2"),
        ("text,text_pair,label", "text_pair"),
    ],
)
def test_usual_column_names_are_found(tmp_path: Path, header: str, pair: str | None) -> None:
    width = header.count(",") + 1
    task = task_of(write(tmp_path / "a.csv", "\n".join([header, ",".join("a" * width), ",".join("b" * width)])))
    assert isinstance(task.layout, TableLayout)
    assert task.layout.pair == pair


def test_named_columns_are_taken(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,review,answer,label,stars\nno,good,yes,x,5\nno,bad,no,x,1\n")
    data = load_task("own", data=path, columns=OwnColumns(text="review", text_pair="answer", label="stars"))
    assert (texts(data).texts, texts(data).pairs, data.task.labels) == (["good", "bad"], ["yes", "no"], ("1", "5"))


@pytest.mark.parametrize("columns", [OwnColumns(text="txt"), OwnColumns(text_pair="txt"), OwnColumns(label="txt")])
def test_a_named_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path, columns: OwnColumns) -> None:
    with pytest.raises(DataError, match=r"unknown column 'txt'\. Did you mean 'text'\? Known: label, text\."):
        task_of(write(tmp_path / "a.csv", "text,label\nx,1\ny,0\n"), columns)


@pytest.mark.parametrize(("header", "option"), [("review,label", "--text"), ("text,stars", "--label")])
def test_a_column_that_cannot_be_guessed_is_asked_for(tmp_path: Path, header: str, option: str) -> None:
    columns = ", ".join(header.split(","))
    with pytest.raises(DataError, match=rf"a\.csv: say which column to take with {option}\. Columns: {columns}\."):
        task_of(write(tmp_path / "a.csv", f"{header}\nx,1\ny,0\n"))


def test_without_a_header_columns_are_numbers_and_the_first_line_is_a_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", "id1\t1\tgood\nid2\t0\tbad\n")
    data = load_task("own", data=path, columns=OwnColumns(no_header=True, text="2", label="1"))
    assert (texts(data).texts, texts(data).targets.tolist()) == (["good", "bad"], [1, 0])


# --- how a file is split


def test_quotes_can_be_told_to_be_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'text,label\n"open,1\nclose",0\n')
    data = load_task("own", data=path, columns=OwnColumns(quoting="none"))
    assert texts(data).texts == ['"open', 'close"']


def test_quotes_can_be_told_to_quote(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", 'text\tlabel\n"a\tb"\t1\nc\t0\n')
    data = load_task("own", data=path, columns=OwnColumns(quoting="csv"))
    assert texts(data).texts == ["a\tb", "c"]


@pytest.mark.parametrize(("delimiter", "between"), [("\\t", "\t"), ("\t", "\t"), ("#", "#")])
def test_the_delimiter_can_be_told_and_a_tab_spelled(tmp_path: Path, delimiter: str, between: str) -> None:
    path = write(tmp_path / "a.csv", f"text{between}label\nx{between}1\ny{between}0\n")
    assert texts(load_task("own", data=path, columns=OwnColumns(delimiter=delimiter))).texts == ["x", "y"]


@pytest.mark.parametrize("delimiter", ["", "::", '"'])
def test_a_delimiter_is_one_character(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(BertVisionError, match=rf"--delimiter is '{delimiter}', one character is expected"):
        task_of(write(tmp_path / "a.csv", "text,label\nx,1\n"), OwnColumns(delimiter=delimiter))


# --- labels, tags or scores


def labelled(folder: Path, *labels: object) -> Path:
    return write(folder / "a.jsonl", "\n".join(json.dumps({"text": "x", "label": label}) for label in labels))


@pytest.mark.parametrize(
    ("labels", "kind", "words"),
    [
        (("b", "a", "b"), "labels", ("a", "b")),
        ((10, 9, 2), "labels", ("2", "9", "10")),
        ((1.0, 0.0, "1"), "labels", ("0", "1")),
        ((-1, 0, 1), "labels", ("-1", "0", "1")),
        ((True, False), "labels", ("0", "1")),
        (("1.5", "x"), "labels", ("1.5", "x")),
        ((0.5, 1, 2), "scores", ()),
        (tuple(range(50)), "labels", tuple(str(number) for number in range(50))),
        (tuple(range(51)), "scores", ()),
    ],
)
def test_words_and_few_whole_numbers_are_labels_and_the_rest_scores(
    tmp_path: Path, labels: tuple[object, ...], kind: str, words: tuple[str, ...]
) -> None:
    task = task_of(labelled(tmp_path, *labels))
    assert (task.kind, task.labels) == (kind, words)


def test_the_kind_can_be_told(tmp_path: Path) -> None:
    path = labelled(tmp_path, 0, 1, 2)
    assert task_of(path, OwnColumns(kind="scores")).metrics == ("pearson", "spearman", "mse")
    assert task_of(labelled(tmp_path, 0.5, 1), OwnColumns(kind="labels")).labels == ("0.5", "1")


def test_scores_that_are_no_numbers_are_bad_rows(tmp_path: Path) -> None:
    data = load_task("own", data=labelled(tmp_path, 0.5, "high", 2), columns=OwnColumns(kind="scores"), skip_bad=True)
    assert [row.problem for row in data.bad["train"]] == ["score 'high' is not a number"]
    assert texts(data).targets.tolist() == [0.5, 2.0]


def test_empty_labels_are_no_class_but_bad_rows(tmp_path: Path) -> None:
    data = load_task("own", data=labelled(tmp_path, "a", "", None, "b"), skip_bad=True)
    assert data.task.labels == ("a", "b")
    assert [str(row) for row in data.bad["train"]] == [
        f"{tmp_path}/a.jsonl:2: the label is empty",
        f"{tmp_path}/a.jsonl:3: the label is empty",
    ]


def test_one_label_is_no_task(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl: column 'label' has one label only, \['a'\]\. Two or more"):
        task_of(labelled(tmp_path, "a", "a"))


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv has columns \(text, label\) and no rows\. Rows with examples"):
        task_of(write(tmp_path / "a.csv", "text,label\n"))


def test_a_column_without_any_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl: column 'label' has no label that can be read\. Labels or"):
        task_of(labelled(tmp_path, "", None))


@pytest.mark.parametrize(
    ("name", "content", "found", "row"),
    [
        ("a.csv", "text,label\nyes, please,1\nno, thanks,0\n", "no label that can be read", "2: 3 columns, expected 2"),
        ("a.csv", "text,label\nyes,1\nno, thanks,0\n", "one label only", "3: 3 columns, expected 2"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b" "label": 0}', "one label only", "2: not JSON"),
        ("a.jsonl", '{"text": "a", "label": {"b": 1}}', "no label that can be read", "1: the label is {'b': 1}"),
    ],
)
def test_where_labels_are_too_few_the_rows_that_could_not_be_read_are_shown(
    name: str, content: str, found: str, row: str, tmp_path: Path
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=f"column 'label' has {found}") as caught:
        task_of(path)
    assert f"expected.\nRows that could not be read:\n  {path}:{row}" in str(caught.value)


# --- several labels per text

TAGGED = [
    {"text": "one, two", "labels": ["glad", "10"]},
    {"text": "three", "labels": []},
    {"text": "four", "labels": ["2", "glad"]},
]
TAG_FILES = {
    "a.json": json.dumps(TAGGED),
    "a.jsonl": "\n".join(json.dumps(row) for row in TAGGED),
    "a.csv": 'text,labels\n"one, two",glad; 10\nthree,\nfour,2;glad\n',
    "a.tsv": "text\tlabels\none, two\tglad;10\nthree\t\nfour\t2;glad\n",
}


@pytest.mark.parametrize("name", [*TAG_FILES, "a.parquet"])
def test_every_format_gives_the_same_tags(tmp_path: Path, name: str) -> None:
    if name in TAG_FILES:
        write(tmp_path / name, TAG_FILES[name])
    else:
        parquet.write_table(pa.Table.from_pylist(TAGGED), tmp_path / name)
    separator = ";" if name.endswith(("csv", "tsv")) else None
    data = load_task("own", data=tmp_path / name, columns=OwnColumns(separator=separator))
    assert (data.task.kind, data.task.labels, data.task.outputs) == ("tags", ("10", "2", "glad"), 3)
    assert data.task.metrics == ("micro_f1", "macro_f1", "subset_accuracy")
    assert texts(data).texts == ["one, two", "three", "four"]
    assert texts(data).targets.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 1]]


def test_tags_that_are_numbers_are_sorted_as_numbers_and_one_is_enough(tmp_path: Path) -> None:
    assert task_of(labelled(tmp_path, [10, 9], [2.0])).labels == ("2", "9", "10")
    assert task_of(labelled(tmp_path, ["spam"], [])).outputs == 1


def test_labels_of_tags_come_from_train_and_others_in_dev_are_bad_rows(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", '{"text": "x", "label": ["sad"]}\n{"text": "y", "label": ["glad", "sad"]}')
    write(tmp_path / "dev.jsonl", '{"text": "x", "label": ["sad", "mad"]}\n{"text": "y"}\n{"text": "z", "label": []}')
    data = load_task("own", data=tmp_path, skip_bad=True)
    assert [str(row) for row in data.bad["dev"]] == [
        f"{tmp_path}/dev.jsonl:1: label 'mad' is not one of glad, sad",
        f"{tmp_path}/dev.jsonl:2: there are no labels, a list is expected ([] for none; --separator splits text)",
    ]
    assert texts(data, "dev").targets.tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (OwnColumns(kind="tags"), r"a\.csv: column 'label' holds no lists\. Say what .*, such as --separator ';'"),
        (OwnColumns(separator=""), r"--separator is empty\. Expected what stands between the labels of a text"),
        (OwnColumns(separator=";", kind="labels"), r"--separator is for texts with several labels, not for --kind lab"),
    ],
)
def test_a_separator_is_there_where_it_is_needed_and_only_there(
    tmp_path: Path, columns: OwnColumns, message: str
) -> None:
    with pytest.raises(BertVisionError, match=message):
        task_of(write(tmp_path / "a.csv", "text,label\nx,a;b\ny,a\n"), columns)


def test_text_among_lists_and_lists_among_labels_are_bad_rows(tmp_path: Path) -> None:
    path = labelled(tmp_path, ["a"], "a;b", ["b"])
    data = load_task("own", data=path, skip_bad=True)
    assert [row.problem.partition(",")[0] for row in data.bad["train"]] == ["the labels are 'a;b'"]
    data = load_task("own", data=labelled(tmp_path, "a", ["a"], "b"), columns=OwnColumns(kind="labels"), skip_bad=True)
    assert [row.problem.partition(",")[0] for row in data.bad["train"]] == ["the label is ['a']"]
    assert data.task.labels == ("a", "b")


def test_texts_without_any_label_at_all_are_no_task(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.jsonl: column 'label' has no label that can be read\. Labels or"):
        task_of(labelled(tmp_path, [], []))


def test_a_label_that_is_not_a_number_is_no_class_but_a_bad_row(tmp_path: Path) -> None:
    data = load_task("own", data=labelled(tmp_path, 1.0, math.nan, 5.0), skip_bad=True)
    assert (data.task.kind, data.task.labels) == ("labels", ("1", "5"))
    assert [str(row) for row in data.bad["train"]] == [f"{tmp_path / 'a.jsonl'}:2: the label is empty"]


def test_the_word_nan_among_whole_numbers_makes_no_scores_of_them_and_keeps_one_order(tmp_path: Path) -> None:
    task = task_of(write(tmp_path / "a.csv", "text,label\nw,10\nx,nan\ny,5\nz,1\n"))
    assert (task.kind, task.labels) == ("labels", ("1", "10", "5", "nan"))


def notices(path: Path, columns: OwnColumns | None = None) -> tuple[str, ...]:
    return load_task("own", data=path, columns=columns).notices


def test_a_guess_of_what_whole_numbers_are_is_told_where_it_may_be_wrong(tmp_path: Path) -> None:
    many = labelled(tmp_path, *range(51))
    [notice] = notices(many)
    assert notice.startswith("column 'label' has more than 50 different whole numbers: they are taken as scores.")
    assert notice.endswith("If they name classes: --kind labels")
    assert notices(many, OwnColumns(kind="scores")) == notices(many, OwnColumns(kind="labels")) == ()
    assert notices(labelled(tmp_path, *range(50))) == notices(labelled(tmp_path, 0.5, *range(51))) == ()
    score = write(tmp_path / "a.csv", "text,score\nx,1\ny,0\nz,3\n")
    assert notices(score) == (
        "column 'score' has 3 different whole numbers: they are taken as labels. Or else: --kind scores",
    )
    assert notices(score, OwnColumns(kind="labels")) == ()


@pytest.mark.parametrize(
    ("cells", "odd"),
    [(['"0,5"', '"1,0"', '"2,5"'], "0,5"), (["50%", "70 %", "8%"], "50%"), (["1.5", "two", "3.0"], "two")],
    ids=["commas", "per cent", "words"],
)
def test_scores_that_were_taken_as_labels_since_some_are_no_numbers_are_told(
    tmp_path: Path, cells: list[str], odd: str
) -> None:
    path = write(tmp_path / "a.csv", "text,rating\n" + "".join(f"x,{cell}\n" for cell in cells))
    [notice] = notices(path, OwnColumns(label="rating"))
    assert notice.startswith(f"'{odd}' in column 'rating' is no number: its 3 different values are taken as labels. If")
    assert notice.endswith("If they are scores, write them as in 0.5, and use --kind scores")
    assert notices(path, OwnColumns(label="rating", kind="labels")) == ()


@pytest.mark.parametrize("words", [("1", "2", "other"), ("low", "high", "0.5"), ("v1.0", "v2.0"), ("1-2", "3-4")])
def test_labels_with_numbers_among_them_are_labels(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert notices(write(tmp_path / "a.csv", "text,label\n" + "".join(f"x,{word}\n" for word in words))) == ()


@pytest.mark.parametrize("word", ["NaN", "n/a", "NULL"])
def test_a_label_that_looks_like_a_missing_one_is_told(tmp_path: Path, word: str) -> None:
    [notice] = notices(write(tmp_path / "a.csv", f"text,label\nw,10\nx,{word}\ny,5\n"))
    assert notice.startswith(f"'{word}' is a label in column 'label' like any other. If it stands for a missing one")


def test_where_a_header_seems_to_be_missing_the_first_text_is_shown_in_part(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", f"{'so good ' * 20}\t1\nbad\t0\n")
    with pytest.raises(DataError, match=r"Columns: (so good ){5}…, 1\. If that is the first example, .*: --no-header$"):
        task_of(path)
    with pytest.raises(DataError, match=r"with --text\. Columns: 0, 1\.$"):
        task_of(path, OwnColumns(no_header=True))
    with pytest.raises(DataError, match=r"Columns: review, label\.$"):
        task_of(write(tmp_path / "a.jsonl", '{"review": "x", "label": 1}\n'))


@pytest.mark.parametrize("header", ["text,text,label", "text,label,label"])
def test_two_columns_of_the_same_name_are_refused(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "a.csv", f"{header}\nx,a,b\ny,b,a\n")
    with pytest.raises(DataError, match=r"a\.csv: 2 columns are called '\w+', one is expected\. Rename all but one\."):
        load_task("own", data=path)
