from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from bertvision.cli.options import field_docs, parse_options
from bertvision.errors import BertVisionError, UnknownNameError


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """Things inside."""

    deep_value: float = 0.5
    """How deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample."""

    word: str
    """Any word."""

    inner: Inner = field(default_factory=Inner)

    path: Path | None = None
    """Where; 100 % of it (default: nowhere)."""

    choice: Literal["one", "two"] = "one"
    """Which
    of them."""

    flag: bool = False
    """Whether."""

    each: tuple[str, ...] = ()
    """One of several."""


def parse(*words: str) -> Sample:
    return parse_options(Sample, words, prog="prog", summary="Does it.", examples=("prog w",))


def test_a_field_without_a_default_is_an_argument_and_the_others_are_options() -> None:
    options = parse("w", "--deep-value", "2", "--path", "p", "--choice", "two", "--flag")
    assert options == Sample(word="w", inner=Inner(deep_value=2.0), path=Path("p"), choice="two", flag=True)


def test_defaults_are_those_of_the_dataclass() -> None:
    assert parse("w") == Sample(word="w")


def test_an_option_that_may_be_repeated_keeps_every_word_in_order() -> None:
    assert parse("w").each == ()
    assert parse("w", "--each", "a=1").each == ("a=1",)
    assert parse("w", "--each", "b=2", "--flag", "--each=a=1", "--each", "b=2").each == ("b=2", "a=1", "b=2")


def test_a_field_called_as_a_keyword_of_python_loses_the_line_behind_it() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Words:
        """Words."""

        from_: str = "here"
        """Where from."""

    parsed = parse_options(Words, ["--from", "there"], prog="x", summary="", examples=())
    assert parsed.from_ == "there"


def test_other_options_keep_their_last_word() -> None:
    assert parse("w", "--choice", "two", "--choice", "one").choice == "one"


def test_words_of_one_command_line_are_not_those_of_the_next() -> None:
    parse("w", "--each", "a=1")
    assert parse("w", "--each", "b=2").each == ("b=2",)


def test_help_is_the_text_under_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "Does it.",
        "Any word.",
        "things inside:",
        "How deep. (default: 0.5)",
        "Where; 100 % of it (default:",
        "prog w",
    ):
        assert part in text
    assert "Which of them. (default: one)" in text
    assert "--each NAME=VALUE One of several." in text
    assert "One of several. (default" not in text


def test_every_field_of_a_dataclass_is_documented() -> None:
    assert field_docs(Sample) == {
        "word": "Any word.",
        "path": "Where; 100 % of it (default: nowhere).",
        "choice": "Which of them.",
        "flag": "Whether.",
        "each": "One of several.",
    }


def test_docs_of_something_other_than_a_class_are_refused() -> None:
    with pytest.raises(TypeError):
        field_docs(parse)  # type: ignore[arg-type]  # that is the point


def test_a_wrong_choice_lists_the_right_ones() -> None:
    with pytest.raises(BertVisionError, match=r"'three' is not one of one, two\. See: prog --help"):
        parse("w", "--choice", "three")


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown option '--falg'. Did you mean '--flag'\?"):
        parse("w", "--falg=1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    """Several words."""

    words: tuple[str, ...]
    """One word or more."""

    flag: bool = False
    """Whether."""


def test_an_argument_may_be_several_words() -> None:
    def parse_several(*words: str) -> Several:
        return parse_options(Several, words, prog="prog", summary="Does it.", examples=())

    assert parse_several("a", "b", "--flag") == Several(words=("a", "b"), flag=True)
    assert parse_several("--flag", "a").words == ("a",)
    with pytest.raises(BertVisionError, match="arguments are required: WORDS"):
        parse_several()
