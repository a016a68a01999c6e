import csv
import io
from dataclasses import asdict

import numpy as np
import pytest

from bertvision.analysis.side_by_side import ErrorRow, compare_answers, compare_labels, compare_tags, error_csv
from bertvision.errors import BertVisionError
from bertvision.tasks.examples import Texts
from conftest import make_questions

CONTEXT = "ada wrote it"
EXAMPLES = make_questions(
    ("Both right?", CONTEXT, "ada"),
    ('Who "really" wrote it,\nand why?', CONTEXT, "ada"),
    ("Second right?", CONTEXT, None),
    ("Neither?", CONTEXT, "it"),
)
FIRST = {"q0": "Ada", "q1": "ada", "q2": "ada", "q3": ""}
SECOND = {"q0": "ada", "q1": "ada wrote", "q2": "", "q3": "ada"}


def test_questions_that_a_model_got_wrong_stand_side_by_side() -> None:
    rows = compare_answers(EXAMPLES, first=FIRST, second=SECOND)
    assert [(row.id, row.first_right, row.second_right) for row in rows] == [
        ("q1", True, False),
        ("q2", False, True),
        ("q3", False, False),
    ]
    assert rows[1] == ErrorRow(
        id="q2", text="Second right?", golds=(), first="ada", second="", first_right=False, second_right=True
    )
    assert rows[2].golds == ("it",)


def test_csv_survives_commas_quotes_and_new_lines() -> None:
    text = error_csv(compare_answers(EXAMPLES, first=FIRST, second=SECOND), first="mix", second="own output")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["id", "text", "golds", "mix", "own output", "mix right", "own output right"]
    assert rows == [
        ["q1", 'Who "really" wrote it,\nand why?', "ada", "ada", "ada wrote", "true", "false"],
        ["q2", "Second right?", "", "ada", "", "false", "true"],
        ["q3", "Neither?", "it", "", "ada", "false", "false"],
    ]


def test_several_golds_share_a_cell_and_equal_ones_are_one() -> None:
    row = ErrorRow(
        id="q", text="?", golds=("ada", "lovelace"), first="a", second="b", first_right=False, second_right=False
    )
    assert "ada | lovelace" in error_csv([row])
    examples = make_questions(("Who?", CONTEXT, "ada"))
    examples.answers[0] = examples.answers[0] * 2
    assert compare_answers(examples, first={"q0": "it"}, second={"q0": "it"})[0].golds == ("ada",)


def test_labels_stand_side_by_side_by_their_words() -> None:
    texts = Texts(
        ids=["a", "b", "c"], texts=["one", "two", "three"], pairs=["uno", "dos", "tres"], targets=np.array([1, 0, 1])
    )
    rows = compare_labels(texts, ("no", "yes"), first=np.array([1, 1, 0]), second=np.array([1, 0, 0]))
    assert [asdict(row) for row in rows] == [
        {
            "id": "b",
            "text": "two | dos",
            "golds": ("no",),
            "first": "yes",
            "second": "no",
            "first_right": False,
            "second_right": True,
        },
        {
            "id": "c",
            "text": "three | tres",
            "golds": ("yes",),
            "first": "no",
            "second": "no",
            "first_right": False,
            "second_right": False,
        },
    ]


def test_a_single_text_stands_alone() -> None:
    texts = Texts(ids=["a"], texts=["one"], pairs=None, targets=np.array([1]))
    (row,) = compare_labels(texts, ("no", "yes"), first=np.array([0]), second=np.array([1]))
    assert (row.text, row.first_right, row.second_right) == ("one", False, True)


def test_a_model_without_an_answer_is_refused() -> None:
    with pytest.raises(BertVisionError, match="the second model has no answer for 1 of 4 questions, first 'q3'"):
        compare_answers(EXAMPLES, first=FIRST, second={key: SECOND[key] for key in ("q0", "q1", "q2")})


def test_labels_that_do_not_fit_are_refused() -> None:
    texts = Texts(ids=["a"], texts=["one"], pairs=None, targets=np.array([1]))
    with pytest.raises(BertVisionError, match="2 predictions of the first model for 1 examples"):
        compare_labels(texts, ("no", "yes"), first=np.array([0, 1]), second=np.array([1]))
    with pytest.raises(BertVisionError, match=r"predictions of the second model hold class 2; 0 to 1 are expected\."):
        compare_labels(texts, ("no", "yes"), first=np.array([0]), second=np.array([2]))
    with pytest.raises(BertVisionError, match="golds hold class 1; 0 to 0"):
        compare_labels(texts, ("no",), first=np.array([0]), second=np.array([0]))


def test_tags_are_wrong_unless_all_and_no_others_were_given() -> None:
    texts = Texts(["1", "2", "3"], ["x", "y", "z"], None, np.array([[1, 0], [1, 1], [0, 0]]))
    first, second = np.array([[1, 0], [1, 0], [0, 0]]), np.array([[1, 1], [1, 1], [0, 0]])
    one, two = compare_tags(texts, ["a", "b"], first=first, second=second)
    assert (one.id, one.golds, one.first, one.second) == ("1", ("a",), "a", "a | b")
    assert (one.first_right, one.second_right) == (True, False)
    assert (two.id, two.golds, two.first, two.second) == ("2", ("a", "b"), "a", "a | b")
    assert (two.first_right, two.second_right) == (False, True)
    with pytest.raises(BertVisionError, match="2 predictions of the second model for 3 examples"):
        compare_tags(texts, ["a", "b"], first=first, second=second[:2])
