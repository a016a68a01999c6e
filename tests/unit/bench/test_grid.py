from typing import Any

import pytest

from bertvision.bench.grid import expand
from bertvision.errors import BertVisionError


def test_a_table_without_lists_comes_once_as_it_is() -> None:
    assert list(expand({"name": "{task}", "epochs": 2}, ["name"])) == [({"name": "{task}", "epochs": 2}, {})]


def test_every_combination_comes_once_and_the_last_word_moves_fastest() -> None:
    table = {"name": "{task} of {n}", "kind": "k", "each": {"task": ["a", "b"], "n": [8, 0.5]}}
    found = list(expand(table, ["name"]))
    assert [one["name"] for one, _ in found] == ["a of 8", "a of 0.5", "b of 8", "b of 0.5"]
    assert found[1] == ({"name": "a of 0.5", "kind": "k"}, {"task": "a", "n": 0.5})


def test_a_value_may_stand_in_any_of_the_words_that_name() -> None:
    table = {"first": "{task}:x", "second": "{task}:{rival}", "each": {"task": ["a"], "rival": ["y", "z"]}}
    assert [one["second"] for one, _ in expand(table, ["first", "second"])] == ["a:y", "a:z"]


@pytest.mark.parametrize(
    ("each", "message"),
    [
        (["a"], r"each beside name '\{task\}' is \['a'\]; words with lists are expected, such as \{ task = "),
        ({"task": "cola"}, r"each beside name '\{task\}' is \{'task': 'cola'\}; words with lists"),
        ({"task": []}, "words with lists are expected"),
        ({"task": ["a"], "n": [1]}, r"each lists n, and name '\{task\}' does not say \{n\}; all would be the same"),
        ({"task": ["a"], "kind": ["k"]}, "kind beside name '{task}' stands in each, too; leave it out once"),
    ],
)
def test_lists_that_cannot_be_meant_are_refused(each: Any, message: str) -> None:  # noqa: ANN401 - any content
    with pytest.raises(BertVisionError, match=message):
        list(expand({"name": "{task}", "kind": "k", "each": each}, ["name"]))
