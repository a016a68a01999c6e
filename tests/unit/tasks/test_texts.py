"""Cells become texts, labels, tags and scores, or a bad row that says why not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertvision.errors import DataError
from bertvision.tasks.files import BadRow
from bertvision.tasks.load import TASKS
from bertvision.tasks.tables import Table
from bertvision.tasks.task import TableLayout, Task
from bertvision.tasks.texts import label_word, parse_target, read_texts, texts_from_table
from conftest import make_tags

PAIRS = TableLayout(text="a", pair="b", label="y", id="id")
COLUMNS = ("id", "a", "b", "y")
LABELS = Task(
    name="mood", kind="labels", summary="", layout=PAIRS, metrics=("accuracy",), files={}, labels=("sad", "glad")
)
SCORES = Task(name="alike", kind="scores", summary="", layout=PAIRS, metrics=("pearson",), files={}, limits=(0.0, 5.0))
UNLIMITED = Task(name="any", kind="scores", summary="", layout=PAIRS, metrics=("pearson",), files={})


def table(*rows: tuple[object, ...]) -> Table:
    return Table(Path("x.tsv"), COLUMNS, list(enumerate(rows, start=2)), [])


def bad_rows(*rows: tuple[object, ...]) -> list[str]:
    return [str(row) for row in texts_from_table(LABELS, PAIRS, table(*rows))[1]]


def test_rows_become_columns_of_texts_pairs_and_class_numbers() -> None:
    rows = table(("7", "one", "two", "glad"), ("8", "three", "four", "sad"))
    texts, bad = texts_from_table(LABELS, PAIRS, rows)
    assert (texts.ids, texts.texts, texts.pairs) == (["7", "8"], ["one", "three"], ["two", "four"])
    assert texts.targets.tolist() == [1, 0]
    assert texts.targets.dtype == np.int64
    assert bad == []


def test_single_texts_have_no_pairs_and_are_numbered_where_the_file_has_no_ids() -> None:
    layout = TableLayout(text="a", label="y")
    texts, _ = texts_from_table(SCORES, layout, table(("", "one", "", "0.5"), ("", "two", "", "4")))
    assert (texts.ids, texts.pairs) == (["0", "1"], None)
    assert texts.targets.tolist() == [0.5, 4.0]
    assert texts.targets.dtype == np.float64


def test_a_bad_row_does_not_shift_the_numbers_of_those_behind_it() -> None:
    rows = table(("", "one", "", "sad"), ("", "two", "", "?"), ("", "three", "", "glad"))
    texts, _ = texts_from_table(LABELS, TableLayout(text="a", label="y"), rows)
    assert texts.ids == ["0", "2"]


def test_rows_that_the_table_could_not_split_come_first_among_the_bad() -> None:
    rows = replace(table(("1", "a", "b", "?")), bad=[BadRow("x.tsv:9", "an empty line")])
    _, bad = texts_from_table(LABELS, PAIRS, rows)
    assert [row.where for row in bad] == ["x.tsv:9", "x.tsv:2"]


@pytest.mark.parametrize(
    "layout",
    [
        replace(PAIRS, text="nowhere"),
        replace(PAIRS, pair="nowhere"),
        replace(PAIRS, label="nowhere"),
        replace(PAIRS, id="nowhere"),
    ],
)
def test_a_column_that_the_file_lacks_is_refused(layout: TableLayout) -> None:
    with pytest.raises(DataError, match=r"x\.tsv: unknown column 'nowhere'\. Known: a, b, id, y\."):
        texts_from_table(LABELS, layout, table())


def test_texts_without_a_column_of_labels_are_pointed_to_the_command_for_them() -> None:
    with pytest.raises(DataError, match=r"Known: a, b, id, y\. Texts without labels are for `bertvision predict`"):
        texts_from_table(LABELS, replace(PAIRS, label="nowhere"), table())
    with pytest.raises(DataError, match=r"Columns: a, y, y\.$"):
        texts_from_table(LABELS, TableLayout(text="a", label="y"), Table(Path("x.tsv"), ("a", "y", "y"), [], []))


def test_files_are_read_as_their_layout_says(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_bytes(b'"one\tglad\n\xff\tsad\ntwo\tsad\n')
    texts, bad = read_texts(LABELS, TableLayout(text=0, label=1, header=False), tmp_path / "x.tsv")
    assert (texts.texts, texts.targets.tolist()) == (['"one', "two"], [1, 0])
    assert [row.where for row in bad] == [f"{tmp_path / 'x.tsv'}:2"]


BAD_CELLS = {
    "x.tsv:2: column 'a' is missing": ("1", None, "b", "sad"),
    "x.tsv:2: column 'b' is missing": ("1", "a", None, "sad"),
    "x.tsv:2: column 'a' holds int, text is expected": ("1", 5, "b", "sad"),
    "x.tsv:2: column 'b' holds list, text is expected": ("1", "a", ["b"], "sad"),
    "x.tsv:2: the text is empty": ("1", " ", "\t", "sad"),
    "x.tsv:2: the label is empty": ("1", "a", "b", " "),
    "x.tsv:2: label 'mad' is not one of sad, glad": ("1", "a", "b", "mad"),
    "x.tsv:2: character 1 is half of a surrogate pair (\\ud800)": ("1", "a", "b\ud800", "sad"),
    "x.tsv:2: character 0 is half of a surrogate pair (\\udfff)": ("\udfff", "a", "b", "sad"),
    "x.tsv:2: character 3 is half of a surrogate pair (\\udc00)": ("1", "a", "b", "sad\udc00"),
}


@pytest.mark.parametrize(("problem", "row"), BAD_CELLS.items(), ids=BAD_CELLS)
def test_a_cell_that_is_not_what_the_task_asks_for_is_named(problem: str, row: tuple[object, ...]) -> None:
    assert bad_rows(row) == [problem]


def test_one_text_of_a_pair_may_be_empty() -> None:
    assert bad_rows(("1", "", "b", "sad"), ("2", "a", "", "sad")) == []


def test_an_id_that_comes_twice_is_named_with_its_first_line() -> None:
    rows = (("7", "a", "b", "sad"), ("8", "a", "b", "sad"), (7, "c", "d", "glad"))
    assert bad_rows(*rows) == ["x.tsv:4: id '7' stands at line 2 already"]


def test_the_id_of_a_bad_row_is_free_for_a_good_one() -> None:
    assert len(bad_rows(("7", "a", "b", "mad"), ("7", "a", "b", "sad"))) == 1


@pytest.mark.parametrize(
    ("cell", "word"),
    [
        (" glad ", "glad"),
        (1, "1"),
        (1.0, "1"),
        ("1.0", "1"),
        ("-2.0", "-2"),
        ("1.5", "1.5"),
        (True, "1"),
        ("v.0", "v.0"),
    ],
)
def test_a_label_is_its_word_and_whole_numbers_lose_their_zero(cell: object, word: str) -> None:
    assert label_word(cell) == word


@pytest.mark.parametrize("cell", [None, "", " \t"])
def test_an_empty_label_is_refused(cell: object) -> None:
    with pytest.raises(ValueError, match="the label is empty"):
        label_word(cell)


@pytest.mark.parametrize(("cell", "score"), [("0", 0.0), ("5.000", 5.0), (2.5, 2.5), (" 3 ", 3.0)])
def test_scores_are_legal_up_to_their_limits(cell: object, score: float) -> None:
    assert parse_target(SCORES, cell) == score


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("5.001", "score 5.001 is outside 0 to 5"),
        (-1, "score -1 is outside 0 to 5"),
        ("nan", "score 'nan' is not finite"),
        (float("inf"), "score 'inf' is not finite"),
        ("", "score '' is not a number"),
        ("high", "score 'high' is not a number"),
        (None, "score 'None' is not a number"),
        (True, "score 'True' is not a number"),
    ],
)
def test_what_is_no_legal_score_is_refused(cell: object, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        parse_target(SCORES, cell)


def test_scores_without_limits_take_any_finite_number() -> None:
    assert parse_target(UNLIMITED, "-1e6") == -1e6
    with pytest.raises(ValueError, match="not finite"):
        parse_target(UNLIMITED, "-inf")


@pytest.mark.parametrize(
    ("separator", "cell", "target"),
    [
        (None, ["glad", "calm"], (1, 0, 1)),
        (None, ["calm", "glad", "calm"], (1, 0, 1)),
        (None, [], (0, 0, 0)),
        (";", "sad; calm ", (0, 1, 1)),
        (";", " ", (0, 0, 0)),
        (", ", "sad, glad", (1, 1, 0)),
        (";", ["sad"], (0, 1, 0)),
    ],
)
def test_tags_are_1_for_every_label_that_a_text_has(
    separator: str | None, cell: object, target: tuple[int, ...]
) -> None:
    assert parse_target(make_tags("glad", "sad", "calm", separator=separator), cell) == target


def test_tags_become_a_row_of_0_and_1_per_text() -> None:
    rows = table(("", "one", "", ["1.0", "two"]), ("", "two", "", []), ("", "three", "", [True]))
    texts, bad = texts_from_table(make_tags("1", "two"), TableLayout(text="a", label="y"), rows)
    assert texts.targets.tolist() == [[1, 1], [0, 0], [1, 0]]
    assert texts.targets.dtype == np.int64
    assert bad == []
    assert texts.select(np.array([2, 0])).targets.tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("separator", "cell", "problem"),
    [
        (None, ["glad", "mad"], r"label 'mad' is not one of glad, sad"),
        (None, "glad", r"the labels are 'glad', a list is expected \(\[\] for none; --separator splits text\)"),
        (";", 3, r"the labels are 3, a list is expected \(\[\] for none\)"),
        (";", None, r"there are no labels, a list is expected \(\[\] for none\)"),
        (None, ["glad", None], r"the label is empty"),
        (";", "glad;;sad", r"the label is empty"),
        (None, [["glad"]], r"the label is \['glad'\], one word or number is expected"),
    ],
)
def test_what_are_no_tags_is_refused(separator: str | None, cell: object, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}$"):
        parse_target(make_tags("glad", "sad", separator=separator), cell)


def test_spans_are_no_cells() -> None:
    with pytest.raises(AssertionError, match="no cells"):
        parse_target(TASKS["squad2"], "a")
