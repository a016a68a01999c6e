import re
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from typing_extensions import override

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads import HEADS, Head, HeadShape, OptionValue
from bertvision.heads.options import (
    Count,
    Positive,
    Share,
    Sizes,
    Whole,
    check_options,
    head_options,
    parse_layers,
    show,
)


class Example(Head):
    """Has an option of every kind."""

    def __init__(
        self,
        shape: HeadShape,
        *,
        whole: Whole = 3,
        count: Count = 0,
        share: Share = 0.1,
        positive: Positive = 1.0,
        number: float = -1.5,
        flag: bool = False,
        word: Literal["mix", "mean"] = "mix",
        text: str = "any",
        sizes: Sizes = (64, 128),
        maybe: Whole | None = None,
    ) -> None:
        super().__init__(shape)
        self.given = (whole, count, share, positive, number, flag, word, text, sizes, maybe)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        return states.mean(dim=1)


OPTIONS = head_options(Example)
INFINITY = float("inf")


def test_the_keywords_of_a_constructor_are_the_options_of_a_head() -> None:
    assert {name: option.default for name, option in OPTIONS.items()} == {
        "whole": 3,
        "count": 0,
        "share": 0.1,
        "positive": 1.0,
        "number": -1.5,
        "flag": False,
        "word": "mix",
        "text": "any",
        "sizes": (64, 128),
        "maybe": None,
    }
    assert all(name == option.name for name, option in OPTIONS.items())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("whole", "a whole number at least 1"),
        ("count", "a whole number at least 0"),
        ("share", "a number at least 0 and less than 1"),
        ("positive", "a number more than 0"),
        ("number", "a number"),
        ("flag", "true or false"),
        ("word", "one of mix, mean"),
        ("text", "a word"),
        ("sizes", "whole numbers such as 64,128 of at least 1"),
        ("maybe", "a whole number at least 1 or none"),
    ],
)
def test_every_option_says_what_values_it_takes(name: str, kind: str) -> None:
    assert OPTIONS[name].kind == kind


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("whole", "12", 12),
        ("whole", 12, 12),
        ("count", "0", 0),
        ("share", "0.5", 0.5),
        ("share", "1e-3", 0.001),
        ("share", 0, 0.0),
        ("positive", "2", 2.0),
        ("number", "-3", -3.0),
        ("flag", "true", True),
        ("flag", "False", False),
        ("flag", True, True),
        ("word", "mean", "mean"),
        ("text", "other", "other"),
        ("sizes", "32", (32,)),
        ("sizes", "64,128, 256", (64, 128, 256)),
        ("sizes", [64, 128], (64, 128)),
        ("sizes", (), ()),
        ("sizes", "", ()),
        ("sizes", "none", ()),
        ("maybe", "none", None),
        ("maybe", None, None),
        ("maybe", "7", 7),
    ],
)
def test_words_and_values_become_the_type_of_the_option(name: str, given: object, expected: OptionValue) -> None:
    parsed = OPTIONS[name].parse(given)
    assert parsed == expected
    assert type(parsed) is type(expected)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("whole", "0"),
        ("whole", "many"),
        ("whole", "2.5"),
        ("whole", 3.0),
        ("whole", True),
        ("whole", None),
        ("count", -1),
        ("share", "1"),
        ("share", -0.1),
        ("share", "nan"),
        ("positive", 0),
        ("positive", INFINITY),
        ("number", [1.0]),
        ("number", False),
        ("number", 10**400),
        ("flag", "yes"),
        ("flag", 1),
        ("word", "Mean"),
        ("word", ["mean"]),
        ("text", 3),
        ("sizes", "64,0"),
        ("sizes", "64,,128"),
        ("sizes", "6none4"),
        ("sizes", [64, 1.5]),
        ("sizes", 64),
        ("sizes", None),
        ("maybe", "0"),
        ("maybe", "nothing"),
    ],
)
def test_what_is_no_value_of_an_option_is_refused_with_what_would_be(name: str, given: object) -> None:
    option = OPTIONS[name]
    words = f"option {name} is {given!r}, {option.kind} is expected (default: {show(option.default)})."
    with pytest.raises(BertVisionError, match=f"^{re.escape(words)}$"):
        option.parse(given)


@pytest.mark.parametrize(
    ("value", "word"),
    [(None, "none"), (True, "true"), (False, "false"), (3, "3"), (0.1, "0.1"), ((64, 128), "64,128"), ((), "none")],
)
def test_values_are_shown_as_one_would_write_them(value: OptionValue, word: str) -> None:
    assert show(value) == word


@pytest.mark.parametrize("name", HEADS)
def test_every_default_of_every_head_is_a_value_and_so_is_the_word_for_it(name: str) -> None:
    options = head_options(HEADS[name].head)
    values = {key: option.default for key, option in options.items()} | dict(HEADS[name].options)
    assert {key: options[key].parse(value) for key, value in values.items()} == values
    assert {key: options[key].parse(show(value)) for key, value in values.items()} == values


@given(st.lists(st.integers(1, 4096), max_size=5))
@settings(max_examples=30)
def test_sizes_are_the_same_read_as_they_are_shown(sizes: list[int]) -> None:
    assert OPTIONS["sizes"].parse(show(tuple(sizes))) == tuple(sizes)


def test_options_that_are_not_given_keep_their_defaults() -> None:
    checked = check_options("example", Example, {"whole": "5", "flag": "true"})
    assert checked == {key: option.default for key, option in OPTIONS.items()} | {"whole": 5, "flag": True}
    assert list(checked) == list(OPTIONS)


def test_an_unknown_option_is_answered_with_the_nearest_and_all_there_are() -> None:
    with pytest.raises(
        UnknownNameError,
        match=r"^unknown option of head 'example' 'size'\. Did you mean 'sizes'\? Known: count, flag, layers, maybe, "
        r"number, positive, share, sizes, text, tokens, whole, word\.$",
    ):
        check_options("example", Example, {"size": 3})


def test_a_wrong_value_is_answered_with_the_head_and_the_option() -> None:
    with pytest.raises(BertVisionError, match=r"^head 'example': option share is '2', a number at least 0 and less "):
        check_options("example", Example, {"share": "2"})


@pytest.mark.parametrize(
    ("words", "layers", "lowest", "expected"),
    [
        (None, 5, 0, [0, 1, 2, 3, 4]),
        (None, 5, 1, [1, 2, 3, 4]),
        (None, 1, 1, [0]),  # there is no other
        ("0..2", 5, 1, [0, 1, 2]),
        ("2..2", 5, 0, [2]),
        ("3", 5, 0, [3]),
        (3, 5, 0, [3]),
        ("0..4", 5, 0, [0, 1, 2, 3, 4]),
    ],
)
def test_layers_are_named_by_the_first_and_the_last(
    words: OptionValue, layers: int, lowest: int, expected: list[int]
) -> None:
    assert list(parse_layers(words, layers, lowest)) == expected


@pytest.mark.parametrize("words", ["5", "0..5", "3..1", "..3", "2..", "-1", "-2..3", "0...2", "all", "", "1.5", True])
def test_layers_that_are_not_there_are_refused(words: OptionValue) -> None:
    with pytest.raises(
        BertVisionError, match=f"^option layers is {re.escape(repr(words))}, such as 0\\.\\.4 is expected\\.$"
    ):
        parse_layers(words, 5, 0)
