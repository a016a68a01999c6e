"""Files are predicted piece by piece; a run that was cut off goes on, and ends with the same files."""

import csv
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from bertvision.errors import BertVisionError, DataError
from bertvision.packs import predict, stream
from bertvision.packs.pack import Pack
from bertvision.packs.predict import predict_file
from bertvision.packs.stream import Columns, Row, stream_rows
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import TableLayout
from tiny_pack import TAGS, make_pack
from tiny_run import save_tiny_encoder, write_questions

TWO_QUESTIONS = (
    b'{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 1, "question": "b"}, {"id": %s, "question": "%s"}]}]}]}'
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs")
    encoder = save_tiny_encoder(folder / "encoder")
    write_questions(folder / "data", train=25)
    make_pack(folder / "qa", encoder, TASKS["squad2"], threshold=0.0)
    make_pack(folder / "mood", encoder, TASKS["sst2"])
    make_pack(folder / "alike", encoder, TASKS["sts"], pairs="apart")
    make_pack(folder / "tags", encoder, TAGS)
    return folder


def read(path: Path) -> Any:  # noqa: ANN401 - JSON
    return json.loads(path.read_text(encoding="utf-8"))


def test_questions_stream_from_any_piece_size(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, card = place / "data" / "train.json", Pack.load(place / "qa").card
    expected = [
        (question["id"], (question["question"], paragraph["context"]))
        for article in read(path)["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    for size in (7, 100, 1 << 20):
        monkeypatch.setattr(stream, "CHUNK", size)
        assert [(row.id, row.input) for row in stream_rows(path, card)] == expected


def test_batches_and_gzip_change_nothing(place: Path, tmp_path: Path) -> None:
    pack, path = Pack.load(place / "qa"), place / "data" / "train.json"
    packed = tmp_path / "train.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    told: list[int] = []
    whole = predict_file(pack, path, tmp_path / "whole.json", device="cpu")
    pieces = predict_file(pack, packed, tmp_path / "pieces.json", batch=7, device="cpu", tell=told.append)
    assert (whole.examples, pieces.examples, told) == (25, 25, [7, 14, 21, 25])
    assert read(whole.file) == read(pieces.file)
    assert whole.no_answer == tmp_path / "whole.no_answer.json"
    margins = read(whole.no_answer)
    assert {key for key, text in read(whole.file).items() if not text} == {k for k, v in margins.items() if v > 0.0}
    assert {path.name for path in tmp_path.iterdir()} == {
        "train.json.gz", "whole.json", "whole.no_answer.json", "pieces.json", "pieces.no_answer.json",
    }  # fmt: skip


def test_a_pack_that_cannot_be_read_leaves_nothing_and_says_what_to_do(place: Path, tmp_path: Path) -> None:
    pack = make_pack(tmp_path / "pack", str(place / "encoder"), TASKS["squad2"])
    (pack.folder / "heads" / pack.card.heads[0] / "head.json").write_text("{", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"head\.\w+ cannot be read .* Copy the pack again, or make it again"):
        predict_file(pack, place / "data" / "train.json", tmp_path / "out.json", device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["pack"]


@pytest.mark.parametrize("lost", [0, 5], ids=["between lines", "inside a line"])
def test_a_run_that_was_cut_off_goes_on(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    pack, path, out = Pack.load(place / "qa"), place / "data" / "train.json", tmp_path / "out.json"
    seen: list[int] = []
    compute = predict.predict_rows

    def fail(models: Any, rows: list[Any]) -> Any:  # noqa: ANN401 - handed on
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(len(rows))
        return compute(models, rows)

    monkeypatch.setattr(predict, "predict_rows", fail)
    with pytest.raises(KeyboardInterrupt):
        predict_file(pack, path, out, batch=8, device="cpu")
    assert not out.exists()
    done = tmp_path / "out.json.part" / "done.jsonl"
    done.write_bytes(done.read_bytes()[: done.stat().st_size - lost])
    monkeypatch.setattr(predict, "predict_rows", compute)
    result = predict_file(pack, path, out, batch=8, device="cpu")
    assert result.resumed == (16 if not lost else 15)
    expected = predict_file(pack, path, tmp_path / "other.json", device="cpu")
    assert read(out) == read(expected.file)
    assert not (tmp_path / "out.json.part").exists()


def test_what_another_file_left_is_not_gone_on_with(place: Path, tmp_path: Path) -> None:
    part = tmp_path / "out.json.part"
    part.mkdir()
    (part / "done.jsonl").write_text('{"file": "other"}\n{"id": "0", "prediction": ""}\n', encoding="utf-8")
    with pytest.raises(BertVisionError, match="holds predictions of another file or pack"):
        predict_file(Pack.load(place / "qa"), place / "data" / "train.json", tmp_path / "out.json", device="cpu")


@pytest.mark.parametrize(("line", "damaged"), [(1, b'{"file": "1'), (1, b"\xff"), (2, b'{"id": "0", "predi')])
def test_damaged_predictions_are_not_gone_on_with(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: int, damaged: bytes
) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("cut off")

    pack, path, out = Pack.load(place / "qa"), place / "data" / "train.json", tmp_path / "out.json"
    monkeypatch.setattr(predict, "predict_rows", fail)
    with pytest.raises(RuntimeError, match="cut off"):
        predict_file(pack, path, out, device="cpu")
    done = tmp_path / "out.json.part" / "done.jsonl"
    lines = done.read_bytes().splitlines()
    lines[line - 1 :] = [damaged, b'{"id": "1", "prediction": ""}', b""]
    done.write_bytes(b"\n".join(lines))
    message = rf"out\.json\.part is damaged: line {line} of done\.jsonl is not JSON\. Remove it, or use another --out"
    with pytest.raises(BertVisionError, match=message):
        predict_file(pack, path, out, device="cpu")


@pytest.mark.parametrize("missing", ["null", "NaN"])
def test_a_file_whose_bad_row_was_mended_is_begun_anew(place: Path, tmp_path: Path, missing: str) -> None:
    path, pack = tmp_path / "rows.jsonl", Pack.load(place / "mood")
    path.write_text(f'{{"sentence": "a good"}}\n{{"sentence": {missing}}}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"rows\.jsonl: row 2: column 'sentence' is empty, a value is expected\. Fill"):
        predict_file(pack, path, tmp_path / "out.json", device="cpu")
    path.write_text('{"sentence": "a good"}\n{"sentence": "bad"}\n', encoding="utf-8")
    result = predict_file(pack, path, tmp_path / "out.json", device="cpu")
    assert (result.examples, result.resumed) == (2, 0)
    assert list(read(result.file)) == ["0", "1"]


@pytest.mark.parametrize("name", ["out.json", "out.tsv"])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"sentence": "a", "key": "x"}', r"row 1: unknown column 'nosuch'.*Name it: .*--id"),
        ('{"sentence": "a", "nosuch": null}', r"row 1: column 'nosuch' is empty, a value is expected"),
        ('{"sentence": "a", "nosuch": NaN}', r"row 1: column 'nosuch' is empty, a value is expected"),
    ],
    ids=["no column", "null", "NaN"],
)
def test_ids_that_are_not_there_are_refused(place: Path, tmp_path: Path, name: str, row: str, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{row}\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        predict_file(Pack.load(place / "mood"), path, tmp_path / name, columns=Columns(id="nosuch"), device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize(("ids", "twice"), [("abca", "a"), ("0121", "1"), ("01", None), ("ab3", None), ("2100", "0")])
def test_an_id_that_stands_twice_is_refused_where_one_prediction_would_be_lost(
    place: Path, tmp_path: Path, ids: str, twice: str | None
) -> None:
    path, pack = tmp_path / "rows.csv", Pack.load(place / "mood")
    path.write_text("key,sentence\n" + "".join(f"{key},good\n" for key in ids), encoding="utf-8")
    columns = Columns(id="key")
    table = predict_file(pack, path, tmp_path / "out.tsv", columns=columns, device="cpu")
    assert len(table.file.read_text(encoding="utf-8").splitlines()) == 1 + len(ids)
    if twice is None:
        result = predict_file(pack, path, tmp_path / "out.json", columns=columns, device="cpu", batch=1)
        assert list(read(result.file)) == list(ids)
        return
    with pytest.raises(DataError, match=f"rows.csv: the id '{twice}' stands there more than once"):
        predict_file(pack, path, tmp_path / "out.json", columns=columns, device="cpu", batch=1)


def test_a_table_in_csv_holds_what_the_one_in_tsv_does(place: Path, tmp_path: Path) -> None:
    path, pack = tmp_path / "rows.jsonl", Pack.load(place / "mood")
    path.write_text(
        '{"key": "one, \\"two\\"", "sentence": "a good"}\n{"key": "b", "sentence": "bad"}\n', encoding="utf-8"
    )
    columns = Columns(id="key")
    csv_file, tsv_file = (
        predict_file(pack, path, tmp_path / f"out{end}", columns=columns, device="cpu").file for end in (".csv", ".tsv")
    )
    with csv_file.open(newline="", encoding="utf-8") as file:
        found = list(csv.reader(file))
    assert found[:2] == [["index", "prediction"], ['one, "two"', found[1][1]]]
    assert found == [line.split("\t") for line in tsv_file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("key", "labels"), [("a\\tb", ("0", "1")), ("a\\r", ("0", "1")), ("a", ("0", "1\n2"))])
def test_what_breaks_the_lines_of_a_tsv_file_is_refused_there(
    place: Path, tmp_path: Path, key: str, labels: tuple[str, str]
) -> None:
    path, pack = tmp_path / "rows.jsonl", Pack.load(place / "mood")
    pack = replace(pack, card=replace(pack.card, task=replace(pack.card.task, labels=labels)))
    path.write_text(f'{{"sentence": "a good", "key": "{key}"}}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"has a tab or a line break, which no TSV .* --out FILE\.csv"):
        predict_file(pack, path, tmp_path / "out.tsv", columns=Columns(id="key"), device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]
    result = predict_file(pack, path, tmp_path / "out.csv", columns=Columns(id="key"), device="cpu")
    with result.file.open(newline="", encoding="utf-8") as file:
        _, (index, label) = csv.reader(file)
    assert (index, label in labels) == (json.loads(f'"{key}"'), True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.tsv", 'sentence\tlabel\na good\t1\nbad "b"\t0\n'),
        ("rows.tsv", 'sentence\na good\nbad "b"\n'),
        ("rows.jsonl", '{"sentence": "a good"}\n\n{"sentence": "bad \\"b\\""}\n'),
    ],
)  # fmt: skip
def test_tables_with_and_without_labels_are_predicted(place: Path, tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    pack = Pack.load(place / "mood")
    assert [row.input for row in stream_rows(tmp_path / name, pack.card)] == ["a good", 'bad "b"']
    result = predict_file(pack, tmp_path / name, tmp_path / "out.tsv", device="cpu")
    lines = result.file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "index\tprediction"
    assert [line.split("\t")[0] for line in lines[1:]] == ["0", "1"]
    assert {line.split("\t")[1] for line in lines[1:]} <= {"0", "1"}
    assert result.no_answer is None


def test_columns_can_be_named_and_pairs_are_scored(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("key\tone\ttwo\nx\ta\tb\ny\tc\td\n", encoding="utf-8")
    columns = Columns(text="one", text_pair="two", id="key")
    result = predict_file(Pack.load(place / "alike"), path, tmp_path / "out.json", columns=columns, device="cpu")
    found = read(result.file)
    assert list(found) == ["x", "y"]
    assert all(isinstance(value, float) for value in found.values())


def test_what_was_learnt_from_can_be_predicted_whatever_its_form(place: Path, tmp_path: Path) -> None:
    card = Pack.load(place / "mood").card
    rows = {"sentence": ["a, good", "bad"], "stars": [5, 1]}
    (tmp_path / "rows.json").write_text(
        json.dumps([dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]), encoding="utf-8"
    )
    parquet.write_table(pa.table(rows), tmp_path / "rows.parquet")
    for name in ("rows.json", "rows.parquet"):
        assert list(stream_rows(tmp_path / name, card)) == [Row("0", "a, good"), Row("1", "bad")]


@pytest.mark.parametrize("column", ["0", 0], ids=["as own files have it", "as CoLA has it"])
def test_columns_without_a_header_are_found_by_their_number(place: Path, tmp_path: Path, column: str | int) -> None:
    task = replace(TASKS["sst2"], layout=TableLayout(text=column, label="1", header=False))
    card = make_pack(tmp_path / "bare", str(place / "encoder"), task).card
    (tmp_path / "rows.tsv").write_text("a good\t1\nbad\t0\n", encoding="utf-8")
    assert list(stream_rows(tmp_path / "rows.tsv", card)) == [Row("0", "a good"), Row("1", "bad")]
    assert list(stream_rows(tmp_path / "rows.tsv", card, Columns(text="1"))) == [Row("0", "1"), Row("1", "0")]


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.tsv", b'sentence\tlabel\r\na\rb\t1\r\n\nc\xe2\x80\xa8d "e\t0', ["a\rb", 'c\u2028d "e']),
        ("a.tsv", b"sentence\na\rb\n", ["a\rb"]),
        ("a.csv", b'sentence,label\n"a\rb, ""c""\n",1\nd,0\n', ['a\rb, "c"\n', "d"]),
        ("a.csv", b"sentence,label\ra,1\rb,0\r", ["a", "b"]),
    ],
)
def test_rows_are_split_as_they_are_for_training(
    place: Path, tmp_path: Path, name: str, content: bytes, texts: list[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert [row.input for row in stream_rows(tmp_path / name, Pack.load(place / "mood").card)] == texts


def test_what_is_to_be_predicted_is_not_replaced(place: Path, tmp_path: Path) -> None:
    rows, questions = tmp_path / "rows.tsv", tmp_path / "dev.no_answer.json"
    rows.write_text("sentence\na good\n", encoding="utf-8")
    questions.write_bytes((place / "data" / "train.json").read_bytes())
    for pack, path, out in (("mood", rows, tmp_path / "." / "rows.tsv"), ("qa", questions, tmp_path / "dev.json")):
        before = path.read_bytes()
        with pytest.raises(BertVisionError, match=rf"would replace {path}, .* Use another --out"):
            predict_file(Pack.load(place / pack), path, out, device="cpu")
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("pack", "columns", "message"),
    [
        ("mood", Columns(text="sentence", text_pair="label"), "--text-pair is given; .* sst2 reads single texts"),
        ("qa", Columns(id="id"), "--id names a column of a table; squad2 is read from SQuAD's JSON. Leave it out"),
    ],
)
def test_columns_that_are_not_read_are_refused(
    place: Path, tmp_path: Path, pack: str, columns: Columns, message: str
) -> None:
    with pytest.raises(BertVisionError, match=message):
        predict_file(Pack.load(place / pack), place / "data" / "train.json", tmp_path / "out.json", columns=columns)


def test_of_a_file_of_another_form_only_a_piece_is_in_memory(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "CHUNK", 7)
    monkeypatch.setattr(stream, "KEY", 20)
    searched: list[int] = []

    class Watched:
        def search(self, text: str) -> re.Match[str] | None:
            searched.append(len(text))
            return re.search(r'"data"\s*:\s*\[', text)

    monkeypatch.setattr(stream, "_DATA", Watched())
    (tmp_path / "a.csv").write_text("text,label\n" * 100, encoding="utf-8")
    with pytest.raises(DataError, match="SQuAD's JSON is expected"):
        list(stream_rows(tmp_path / "a.csv", Pack.load(place / "qa").card))
    assert len(searched) > 100
    assert max(searched) <= 27


def test_tags_are_lists(place: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"sentence": "a good"}\n', encoding="utf-8")
    found = read(
        predict_file(Pack.load(place / "tags"), tmp_path / "rows.jsonl", tmp_path / "o.json", device="cpu").file
    )
    assert set(found["0"]) <= {"good", "bad", "gold"}


@pytest.mark.parametrize(
    ("pack", "name", "content", "message"),
    [
        ("qa", "a.json", b'{"version": 2}', "SQuAD's JSON is expected"),
        ("qa", "a.json", b'{"data": [{"paragraphs": [', "not whole JSON"),
        ("qa", "a.json", b'{"data": [{"title": ""}]}', r"data\[0\]: an article with a list 'paragraphs'"),
        ("qa", "a.json", b'{"data": [{"paragraphs": [{"context": "a"}]}]}', r"paragraphs\[0\]: a paragraph with"),
        ("qa", "a.json", b'{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": 1}]}]}]}', r"qas\[0\]: a quest"),
        ("qa", "a.json", b'{"data": []}', r"has no example: .* Name one that has some"),
        (
            "qa",
            "a.json",
            TWO_QUESTIONS % (b"2", b""),
            r"qas\[1\]: a question with 'id' and 'question'",
        ),
        (
            "qa",
            "a.json",
            TWO_QUESTIONS % (b'"1"', b"c"),
            r"the id '1' stands there more than once, .* by id. Give every example an id of its own\.$",
        ),
        (
            "qa",
            "a.json",
            b'{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "\\ud800", "question": "b"}]}]}]}',
            r"qas\[0\]: character 0 is half of a surrogate pair",
        ),
        ("qa", "a.json.gz", b"no", "is not a whole gzip file"),
        ("mood", "a.tsv", b"text\tlabel\na\t1\n", "unknown column 'sentence'. .* Name it: --text"),
        ("mood", "a.tsv", b"sentence\tlabel\n\na\t1\tx\n", r"a\.tsv:3: the row has 3 columns, expected 2"),
        ("mood", "a.csv", b'sentence\n"a good\nbad\n', r"a\.csv:2: broken quoting \(unexpected end .* as JSONL"),
        ("mood", "a.csv", b'sentence,label\na,1\n"bad"b,0\nc,1\n', r"a\.csv:3: broken quoting .* Double the quote"),
        ("mood", "a.csv", b"sentence,sentence\na,b\n", "row 1: several columns are called 'sentence'.* Rename all"),
        ("mood", "a.tsv", b"sentence\tlabel\n\xff\t1\n", "not UTF-8"),
        ("mood", "a.jsonl", b"{", "a.jsonl:1: not JSON"),
        ("mood", "a.jsonl", b"[]", "an object is expected, got list"),
        ("mood", "a.jsonl", b'{"sentence": 3}', "holds int, text is expected"),
        ("mood", "a.jsonl", b'{"sentence": "a"}\n{"sentence": "\\ud800"}', "row 2: character 0 is half of a surrogate"),
        ("mood", "a.json", b"[]", "has no object with columns"),
        ("mood", "a.json", b'[{"sentence": "a"}, 3]', r"a\.json:2: an object is expected, got int"),
        ("mood", "a.parquet", b"no", "not a whole Parquet file"),
    ],
)
def test_files_that_are_not_right_are_refused_before_anything_is_written(
    place: Path, tmp_path: Path, *, pack: str, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        predict_file(Pack.load(place / pack), tmp_path / name, tmp_path / "out.json", device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_ids_that_come_twice_are_refused_where_predictions_are_kept_by_id(place: Path, tmp_path: Path) -> None:
    pack, columns = Pack.load(place / "mood"), Columns(id="who")
    path = tmp_path / "rows.jsonl"
    path.write_text('{"sentence": "a good", "who": 7}\n{"sentence": "bad", "who": 7}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"the id '7' stands there more than once.* Or write a table.*--out FILE.tsv"):
        predict_file(pack, path, tmp_path / "out.json", columns=columns, device="cpu")
    told: list[int] = []
    table = predict_file(pack, path, tmp_path / "out.tsv", columns=columns, device="cpu", count=told.append)
    assert [line.split("\t")[0] for line in table.file.read_text(encoding="utf-8").splitlines()] == ["index", "7", "7"]
    assert told == [2]


def test_ids_whose_hashes_are_the_same_are_told_apart(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "hash", lambda _id: 0, raising=False)
    found = predict_file(Pack.load(place / "qa"), place / "data" / "train.json", tmp_path / "out.json", device="cpu")
    assert len(read(found.file)) == found.examples == 25


def test_folders_missing_files_and_empty_batches_are_refused(place: Path, tmp_path: Path) -> None:
    pack = Pack.load(place / "qa")
    with pytest.raises(DataError, match="is a folder, a file is expected"):
        predict_file(pack, tmp_path, tmp_path / "out.json")
    with pytest.raises(DataError, match="does not exist"):
        predict_file(pack, tmp_path / "none.json", tmp_path / "out.json")
    with pytest.raises(BertVisionError, match=r"--out .* is a folder, a file is expected\. Name a file in it"):
        predict_file(pack, place / "data" / "train.json", tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(BertVisionError, match="--batch is 0"):
        predict_file(pack, tmp_path, tmp_path / "out.json", batch=0)
