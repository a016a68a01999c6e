"""Whatever happens to a file: it loads, or an error of ours says why not; never anything else."""

import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.own import OwnColumns


def _parquet() -> bytes:
    stream = io.BytesIO()
    parquet.write_table(pa.table({"text": ["good é", "bad", "so so"], "label": [1, 0, 1]}), stream)
    return stream.getvalue()


CONTEXT = "Ada wrote the first program in 1843. Bob, naïve 😀, slept."
QUESTIONS = [
    {"id": "a", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}], "is_impossible": False},
    {
        "id": "b",
        "question": "When?",
        "answers": [{"text": "1843", "answer_start": 31}, {"text": "Ada", "answer_start": 0}],
    },
    {"id": "c", "question": "Where?", "answers": [], "is_impossible": True, "plausible_answers": []},
]
SQUAD = json.dumps({"data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": QUESTIONS}]}]}, indent=1)
TSV = '\ufeffindex\tsentence1\tsentence2\tscore\n0\t"a\tb é\t1.5\r\n1\tc\td"\t0.000\n2\te\tf\t5.000\n3\tg\u2028\th\t2\n'
CSV = 'text,label\n"one, two",1\n"first\nsecond",0\n"a ""b"" é",1\nplain,0\n'
OBJECTS = [{"text": "good \ud83d\ude00", "label": 1}, {"text": "bad", "label": 0.0}, {"text": "é", "label": "1"}]
FILES = {
    "squad": ("squad2", "train.json", SQUAD.encode()),
    "glue": ("stsb", "train.tsv", TSV.encode()),
    "csv": ("own", "train.csv", CSV.encode()),
    "semicolons": ("own", "train.csv", CSV.replace(",", ";").encode()),
    "jsonl": ("own", "train.jsonl", "\n".join(json.dumps(row) for row in OBJECTS).encode()),
    "json": ("own", "train.json", json.dumps(OBJECTS, indent=1).encode()),
    "own squad": ("own", "train.json", SQUAD.encode()),
    "parquet": ("own", "train.parquet", _parquet()),
    "gzip": ("own", "train.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
}

Change = tuple[str, int, bytes]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "drop line", "double line"]),
        st.integers(0, 10_000),
        st.one_of(
            st.binary(min_size=1, max_size=4),
            st.sampled_from(
                [b'"', b"\n", b"\r", b"\t", b",", b"{", b"]", b"null", b"-1", b"1e999", b"\\ud800", b"\xff\0"]
            ),
        ),
    ),
    min_size=1,
    max_size=4,
)


def mutate(content: bytes, changes: list[Change]) -> bytes:
    """The content with each change made at its place, taken modulo the length."""
    for kind, number, value in changes:
        place = number % (len(content) + 1)
        lines = content.split(b"\n")
        line = number % len(lines)
        match kind:
            case "flip":
                content = content[:place] + value + content[place + len(value) :]
            case "cut":
                content = content[:place]
            case "insert":
                content = content[:place] + value + content[place:]
            case "drop line":
                content = b"\n".join(lines[:line] + lines[line + 1 :])
            case _:
                content = b"\n".join([*lines[: line + 1], *lines[line:]])
    return content


def check_loaded(data: TaskData) -> None:
    """What is loaded is whole: ids are unique, columns equally long, answers where they are said to be."""
    for examples in data.splits.values():
        assert 0 < len(examples) == len(set(examples.ids))
        if isinstance(examples, Questions):
            for context, answers in zip(examples.context_index, examples.answers, strict=True):
                for answer in answers:
                    assert examples.contexts[context][answer.start : answer.end] == answer.text
        else:
            assert len(examples.texts) == len(examples.targets) == len(examples)
            "".join(examples.texts).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mutated")


@pytest.mark.parametrize(("task", "name", "content"), FILES.values(), ids=FILES)
def test_the_files_are_good_before_they_are_mutated(tmp_path: Path, task: str, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    data = load_task(task, data=tmp_path / name)
    check_loaded(data)
    assert len(data.splits["train"]) == {"train.tsv": 4, "train.csv": 4, "train.csv.gz": 4}.get(name, 3)


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
@given(changes=CHANGES, columns=st.sampled_from([OwnColumns(), OwnColumns(quoting="none"), OwnColumns(kind="scores")]))
@settings(max_examples=50, deadline=None)
def test_a_mutated_file_loads_or_raises_an_error_of_ours(
    folder: Path, file: tuple[str, str, bytes], changes: list[Change], columns: OwnColumns
) -> None:
    task, name, content = file
    path = folder / name
    path.write_bytes(mutate(content, changes))
    try:
        data = load_task(task, data=path, columns=columns if task == "own" else None, skip_bad=True)
    except BertVisionError as error:
        assert name in str(error)  # noqa: PT017 - either outcome is right, and each has its own claim
    else:
        check_loaded(data)


@given(changes=CHANGES)
@settings(max_examples=80, deadline=None)
def test_every_line_of_a_mutated_tsv_file_is_read_or_reported(folder: Path, changes: list[Change]) -> None:
    path = folder / "lines.tsv"
    content = mutate(TSV.encode(), changes)
    path.write_bytes(content)
    try:
        data = load_task("stsb", data=path, skip_bad=True)
    except BertVisionError:
        return
    lines_below_header = content.rstrip(b"\r\n").count(b"\n")
    assert len(data.splits["train"]) + len(data.bad["train"]) == lines_below_header
    assert len({row.where for row in data.bad["train"]}) == len(data.bad["train"])
