"""What every task promises, on small hand-written files in its official layout."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError, DataError
from bertvision.tasks.examples import Examples, Questions
from bertvision.tasks.load import TASKS, load_task
from bertvision.tasks.task import SquadLayout, TableLayout


@dataclass(frozen=True)
class Official:
    """The official file of a task: its header, a row with gaps, and each label as it is spelled and as it is read."""

    header: str
    row: str
    labels: tuple[tuple[str, float], ...]
    quoted: bool = False

    def write(self, texts: Sequence[tuple[str, str]]) -> str:
        """The file's content; labels take turns."""
        lines = [self.header] if self.header else []
        for number, (text, pair) in enumerate(texts):
            label = self.labels[number % len(self.labels)][0]
            lines.append(self.row.format(n=number, text=self.cell(text), pair=self.cell(pair), label=label))
        return "\n".join(lines) + "\n"

    def cell(self, text: str) -> str:
        """The text as it stands in the file."""
        return '"' + text.replace('"', '""') + '"' if self.quoted and '"' in text else text


@dataclass(frozen=True)
class OfficialSquad:
    """SQuAD's JSON; the text is the question, the pair its context, and the answer the context's first word."""

    labels: tuple[tuple[str, float], ...]

    def write(self, texts: Sequence[tuple[str, str]]) -> str:
        """The file's content; questions with and without an answer take turns."""
        paragraphs = []
        for number, (text, pair) in enumerate(texts):
            answers = (
                [{"text": pair.split()[0], "answer_start": 0}] if self.labels[number % len(self.labels)][1] else []
            )
            question = {"id": f"q{number}", "question": text, "answers": answers, "is_impossible": not answers}
            paragraphs.append({"context": pair, "qas": [question]})
        content = {"version": "v", "data": [{"title": "A title", "paragraphs": paragraphs}]}
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


YES_NO = (("0", 0), ("1", 1))
ENTAILED = (("entailment", 0), ("not_entailment", 1))
SCORES = (("0.000", 0.0), ("5.000", 5.0), ("2.5", 2.5))
PARSES = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"

OFFICIAL: dict[str, Official | OfficialSquad] = {
    "squad2": OfficialSquad((("answer", 1), ("none", 0))),
    "squad1": OfficialSquad((("answer", 1),)),
    "answerable": OfficialSquad((("answer", 1), ("none", 0))),
    "cola": Official("", "gj04\t{label}\t*\t{text}", YES_NO),
    "sst2": Official("sentence\tlabel", "{text}\t{label}", YES_NO),
    "mrpc": Official("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "{label}\t7{n}\t8{n}\t{text}\t{pair}", YES_NO),
    "qqp": Official(
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "1{n}\t2{n}\t3{n}\t{text}\t{pair}\t{label}", YES_NO
    ),
    "stsb": Official(
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "{n}\tmain-captions\tMSRvid\t2012test\t000{n}\tnone\tnone\t{text}\t{pair}\t{label}",
        SCORES,
    ),
    "mnli": Official(
        f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2\tlabel1\tgold_label",
        "{n}\t31{n}\t31{n}n\tfiction\t( a )\t( b )\t(ROOT a)\t(ROOT b)\t{text}\t{pair}\tneutral\t{label}",
        (("entailment", 0), ("neutral", 1), ("contradiction", 2)),
    ),
    "qnli": Official("index\tquestion\tsentence\tlabel", "{n}\t{text}\t{pair}\t{label}", ENTAILED),
    "rte": Official("index\tsentence1\tsentence2\tlabel", "{n}\t{text}\t{pair}\t{label}", ENTAILED),
    "wnli": Official("index\tsentence1\tsentence2\tlabel", "{n}\t{text}\t{pair}\t{label}", YES_NO),
    "sst5": Official(
        "\tid\tsentence\tsentiment",
        "{n}\ta7{n}\t{text}\t{label}",
        (("3", 3), ("0", 0), ("4", 4), ("1", 1), ("2", 2)),
        quoted=True,
    ),
    "sts": Official(
        "\tid\tsentence1\tsentence2\tsimilarity", "{n}\ta7{n}\t{text}\t{pair}\t{label}", SCORES, quoted=True
    ),
    "quora": Official(
        "\tid\tsentence1\tsentence2\tis_duplicate",
        "{n}\ta7{n}\t{text}\t{pair}\t{label}",
        (("0.0", 0), ("1.0", 1)),
        quoted=True,
    ),
    "cfimdb": Official("\tid\tsentence\tsentiment", "{n}\ta7{n}\t{text}\t{label}", YES_NO, quoted=True),
}

PLAIN = [("The sailors rode on.", "They sailed."), ("Rocks fell", "Nothing happened"), ("Is it so?", "It is.")]
AWKWARD = [
    ('"He said', "it was over"),  # a quote that is never closed must not swallow the rows behind it
    ('and " she too', 'quote at the end "'),
    ("one\u2028two\u2029three\x85four", "five\x0bsix\x0cseven\x1ceight"),
    (" spaces around ", "naïve 日本語 😀"),
    ("NA", "null"),
]

each_task = pytest.mark.parametrize("name", TASKS)
each_table = pytest.mark.parametrize(
    "name", [name for name, task in TASKS.items() if isinstance(task.layout, TableLayout)]
)
each_plain_table = pytest.mark.parametrize(
    "name", [name for name, official in OFFICIAL.items() if isinstance(official, Official) and not official.quoted]
)
each_other_file = pytest.mark.parametrize(
    "name", [name for name, official in OFFICIAL.items() if isinstance(official, OfficialSquad) or official.quoted]
)
each_squad = pytest.mark.parametrize(
    "name", [name for name, task in TASKS.items() if isinstance(task.layout, SquadLayout)]
)


def put(folder: Path, name: str, texts: Sequence[tuple[str, str]] = PLAIN) -> dict[str, Path]:
    """Write every split of a task under its official name; the paths by split."""
    paths = {split: folder / names[0] for split, names in TASKS[name].files.items()}
    for path in paths.values():
        path.write_bytes(OFFICIAL[name].write(texts).encode())
    return paths


def only(folder: Path, name: str, content: bytes) -> Path:
    """Write the first split of a task alone."""
    path = folder / next(iter(TASKS[name].files.values()))[0]
    path.write_bytes(content)
    return path


def rows(examples: Examples) -> list[tuple[str, str | None, float]]:
    """Text, pair and target of each example; of questions: question, context and whether there is an answer."""
    if isinstance(examples, Questions):
        contexts = [examples.contexts[number] for number in examples.context_index]
        return list(zip(examples.questions, contexts, examples.answerable.tolist(), strict=True))
    pairs = examples.pairs if examples.pairs is not None else [None] * len(examples)
    return list(zip(examples.texts, pairs, examples.targets.tolist(), strict=True))


def expected(name: str, texts: Sequence[tuple[str, str]]) -> list[tuple[str, str | None, float]]:
    official = OFFICIAL[name]
    paired = isinstance(official, OfficialSquad) or "{pair}" in official.row
    targets = [official.labels[number % len(official.labels)][1] for number in range(len(texts))]
    return [(text, pair if paired else None, y) for (text, pair), y in zip(texts, targets, strict=True)]


def test_every_task_has_an_official_file_here() -> None:
    assert set(OFFICIAL) == set(TASKS)


# --- reading


@each_task
@pytest.mark.parametrize("texts", [PLAIN, AWKWARD], ids=["plain", "awkward"])
def test_official_files_are_read_row_by_row(tmp_path: Path, name: str, texts: list[tuple[str, str]]) -> None:
    paths = put(tmp_path, name, texts)
    data = load_task(name, data=tmp_path)
    assert list(data.splits) == list(paths)
    for examples in data.splits.values():
        assert rows(examples) == expected(name, texts)
    assert not any(data.bad.values())


SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "windows line ends": lambda content: content.replace(b"\n", b"\r\n"),
    "byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "no last line end": lambda content: content.rstrip(b"\n"),
    "empty lines at the end": lambda content: content + b"\n\r\n",
}


@each_task
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_how_a_file_is_spelled_makes_no_difference(
    tmp_path: Path, name: str, spelling: Callable[[bytes], bytes]
) -> None:
    for path in put(tmp_path, name, AWKWARD).values():
        path.write_bytes(spelling(path.read_bytes()))
    for examples in load_task(name, data=tmp_path).splits.values():
        assert rows(examples) == expected(name, AWKWARD)


@each_task
def test_gzipped_files_below_a_data_root_are_read_too(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "glue" / TASKS[name].folders[0]
    folder.mkdir(parents=True)
    for path in put(folder, name).values():
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    for examples in load_task(name, data=tmp_path).splits.values():
        assert rows(examples) == expected(name, PLAIN)


@each_task
def test_one_file_is_one_split(tmp_path: Path, name: str) -> None:
    for split, path in put(tmp_path, name).items():
        assert list(load_task(name, data=path).splits) == [split]


@each_task
def test_ids_are_unique_within_a_split(tmp_path: Path, name: str) -> None:
    put(tmp_path, name)
    for examples in load_task(name, data=tmp_path).splits.values():
        assert len(set(examples.ids)) == len(examples) == len(PLAIN)


# --- notices


@each_task
def test_missing_splits_and_unexpected_sizes_are_notices(tmp_path: Path, name: str) -> None:
    task = TASKS[name]
    first, *others = task.files
    only(tmp_path, name, OFFICIAL[name].write(PLAIN).encode())
    missing = [f"{name} has no {split} split here (looked for {task.files[split][0]})." for split in others]
    sizes = (
        [f"{name} {first} has 3 rows here; the official file has {task.rows[first]:,}."] if first in task.rows else []
    )
    assert load_task(name, data=tmp_path).notices == (*missing, *sizes)


# --- rows that cannot be read


@each_table
def test_a_label_outside_the_set_is_a_bad_row_with_its_line(tmp_path: Path, name: str) -> None:
    official = OFFICIAL[name]
    assert isinstance(official, Official)
    wrong = official.row.format(n=9, text="text", pair="pair", label="7") + "\n"
    path = only(tmp_path, name, (official.write(PLAIN) + wrong).encode())
    line = len(PLAIN) + 1 + bool(official.header)
    problem = "score 7 is outside 0 to 5" if TASKS[name].kind == "scores" else "label '7' is not one of "
    with pytest.raises(DataError, match=rf"^1 bad row:\n  {path}:{line}: {problem}"):
        load_task(name, data=path)
    (examples,) = load_task(name, data=path, skip_bad=True).splits.values()
    assert rows(examples) == expected(name, PLAIN)


@each_table
def test_rows_of_other_lengths_are_bad_rows_with_their_lines(tmp_path: Path, name: str) -> None:
    official = OFFICIAL[name]
    assert isinstance(official, Official)
    good = official.write(PLAIN)
    last, width = good.count("\n"), official.row.count("\t") + 1
    path = only(tmp_path, name, (good + "x" + "\t" * width + "\n\nend\n").encode())
    data = load_task(name, data=path, skip_bad=True)
    ((split, examples),) = data.splits.items()
    assert rows(examples) == expected(name, PLAIN)
    assert [str(row) for row in data.bad[split]] == [
        f"{path}:{last + 1}: {width + 1} columns, expected {width}",
        f"{path}:{last + 2}: an empty line",
        f"{path}:{last + 3}: 1 columns, expected {width}",
    ]


@each_plain_table
def test_a_line_that_is_not_utf8_is_a_bad_row(tmp_path: Path, name: str) -> None:
    good, wrong = OFFICIAL[name].write(PLAIN).encode(), OFFICIAL[name].write([("café", "café")]).encode("latin-1")
    path = only(tmp_path, name, good + wrong.splitlines()[-1])
    data = load_task(name, data=path, skip_bad=True)
    ((split, examples),) = data.splits.items()
    assert rows(examples) == expected(name, PLAIN)
    assert [row.where for row in data.bad[split]] == [f"{path}:{len(good.splitlines()) + 1}"]
    assert data.bad[split][0].problem.startswith("not UTF-8 (byte 0xe9)")


@each_other_file
def test_json_and_quoted_files_that_are_not_utf8_are_refused_whole(tmp_path: Path, name: str) -> None:
    content = OFFICIAL[name].write([*PLAIN, ("café", "café")]).encode("latin-1")
    path = only(tmp_path, name, content)
    line = content[: content.index(b"\xe9")].count(b"\n") + 1
    with pytest.raises(DataError, match=rf"^{path}:{line}: not UTF-8 \(byte 0xe9\)"):
        load_task(name, data=path, skip_bad=True)


@each_table
def test_an_id_that_comes_twice_is_a_bad_row(tmp_path: Path, name: str) -> None:
    official = OFFICIAL[name]
    assert isinstance(official, Official)
    again = official.row.format(n=0, text="again", pair="again", label=official.labels[0][0]) + "\n"
    data = load_task(name, data=only(tmp_path, name, (official.write(PLAIN) + again).encode()), skip_bad=True)
    problems = [row.problem for row in next(iter(data.bad.values()))]
    layout = TASKS[name].layout
    assert isinstance(layout, TableLayout)
    if layout.id is None:
        assert problems == []
    else:
        assert [problem.split("' ")[-1] for problem in problems] == ["stands at line 2 already"]


@each_squad
def test_a_question_that_cannot_be_read_is_a_bad_row_with_its_place(tmp_path: Path, name: str) -> None:
    content = json.loads(OFFICIAL[name].write(PLAIN))
    qas = content["data"][0]["paragraphs"][0]["qas"]
    qas.append({"id": "x", "question": "Who?", "answers": [{"text": "sailed", "answer_start": 0}]})
    path = only(tmp_path, name, json.dumps(content).encode())
    place = r"data\[0\]\.paragraphs\[0\]\.qas\[1\] \(id x\)"
    with pytest.raises(DataError, match=rf"^1 bad row:\n  {path}:{place}: answer 'sailed' is not at character 0"):
        load_task(name, data=path)
    (examples,) = load_task(name, data=path, skip_bad=True).splits.values()
    assert rows(examples) == expected(name, PLAIN)


# --- files that cannot be read


@each_task
@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "is empty"), (b"\n\n", "is empty"), (b"one\tword\n", r"(unknown column|not JSON)")],
    ids=["empty", "blank", "something else"],
)
def test_a_file_that_is_not_the_tasks_is_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    path = only(tmp_path, name, content)
    with pytest.raises(DataError, match=rf"^{path}.*{problem}"):
        load_task(name, data=tmp_path, skip_bad=True)


@each_task
def test_a_gzip_file_that_was_cut_is_refused(tmp_path: Path, name: str) -> None:
    path = only(tmp_path, name, OFFICIAL[name].write(PLAIN).encode())
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes())[:-9])
    path.unlink()
    with pytest.raises(DataError, match=rf"{path.name}\.gz is not a whole gzip file"):
        load_task(name, data=tmp_path)


@each_task
def test_an_empty_folder_is_answered_with_the_files_to_put_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"holds no file of {name}\. Expected: --data DIR with ") as caught:
        load_task(name, data=tmp_path)
    for names in TASKS[name].files.values():
        assert names[0] in str(caught.value)


# --- built-in sets and definitions


@each_task
def test_the_built_in_set_has_good_rows_of_every_label_or_is_said_not_to_be_there(name: str) -> None:
    task = TASKS[name]
    if task.builtin is None:
        with pytest.raises(BertVisionError, match=f"there is no built-in set for {name}"):
            load_task(name)
        return
    data = load_task(name, data="builtin")
    assert (list(data.splits), data.bad, data.notices) == (["train", "dev"], {"train": [], "dev": []}, ())
    for examples in data.splits.values():
        targets = {target for _, _, target in rows(examples)}
        assert len(examples) >= 60
        if task.kind == "labels":
            assert targets == set(range(len(task.labels)))


@each_task
def test_a_task_is_defined_without_contradictions(name: str) -> None:
    task = TASKS[name]
    assert task.name == name
    assert task.summary
    assert task.metrics
    assert bool(task.labels) == (task.kind == "labels")
    assert (task.limits is not None) == (task.kind == "scores")
    assert len(set(task.labels)) == len(task.labels)
    assert "dev" in task.files
    assert set(task.rows) <= set(task.files)
    if task.hub is not None:
        assert set(task.hub.splits) == set(task.files)
