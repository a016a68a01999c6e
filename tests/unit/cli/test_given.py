from dataclasses import dataclass, field

import pytest

from bertvision.cli.options import GivenOptions, parse_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """Things inside."""

    deep: float = 0.5
    """How deep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample."""

    word: str
    """Any word."""

    inner: Inner = field(default_factory=Inner)

    many: int = 3
    """How many."""

    flag: bool = False
    """Whether."""

    each: tuple[str, ...] = ()
    """One of several."""

    given: GivenOptions = field(default_factory=GivenOptions)


def parse(*words: str) -> Sample:
    return parse_options(Sample, words, prog="prog", summary="Does it.", examples=())


def test_an_option_is_given_even_with_its_default() -> None:
    options = parse("w", "--deep", "0.5", "--flag")
    assert options.given == GivenOptions({"word", "deep", "flag"})
    assert (options.inner.deep, options.many, options.flag) == (0.5, 3, True)


def test_a_repeated_option_is_given_once() -> None:
    assert parse("w", "--each", "a=1", "--each", "b=2").given == GivenOptions({"word", "each"})


def test_nothing_is_given_by_default() -> None:
    assert parse("w").given == GivenOptions({"word"})


def test_it_is_no_option_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    assert "--given" not in capsys.readouterr().out
