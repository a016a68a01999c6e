import pytest

from bertvision.cli.task_options import load_with_notes, parse_numbers, parse_settings, parse_size
from bertvision.errors import BertVisionError
from bertvision.tasks.own import OwnColumns


def test_settings_are_names_and_words() -> None:
    assert parse_settings(["size=64", "gate=sparsemax", "filters=64,128", "empty=", "odd=a=b"]) == {
        "size": "64",
        "gate": "sparsemax",
        "filters": "64,128",
        "empty": "",
        "odd": "a=b",
    }
    assert parse_settings([]) == {}


def test_of_two_settings_of_a_name_the_last_counts() -> None:
    assert parse_settings(["size=64", "skip=true", "size=32"]) == {"size": "32", "skip": "true"}


@pytest.mark.parametrize("word", ["size", "", "=64", "="])
def test_a_setting_without_a_name_or_a_value_is_refused(word: str) -> None:
    with pytest.raises(BertVisionError, match=rf"--set is '{word}', a name and a value such as size=64 are expected"):
        parse_settings(["skip=true", word])


def test_what_a_task_has_to_tell_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    loaded = load_with_notes("sst2", None, OwnColumns(), skip_bad=False)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "".join(f"note: {notice}\n" for notice in loaded.notices)
    assert loaded.notices


def test_numbers_stand_between_commas() -> None:
    assert parse_numbers("--fraction", "0.1, 3e-1,1,") == (0.1, 0.3, 1.0)
    assert parse_numbers("--fraction", "") == ()


def test_a_word_that_is_no_number_is_refused_with_the_option_it_was_given_to() -> None:
    with pytest.raises(BertVisionError, match=r"--validate is '0.5,half', numbers such as 0.1,0.3,1 are expected"):
        parse_numbers("--validate", "0.5,half")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("20GB", 20_000_000_000),
        ("500mb", 500_000_000),
        (" 1.5 TB ", 1_500_000_000_000),
        ("3kB", 3_000),
        ("1024", 1024),
        ("0.25GB", 250_000_000),
    ],
)
def test_a_size_is_a_number_and_a_unit(words: str, expected: int) -> None:
    assert parse_size("--max-disk", words) == expected


@pytest.mark.parametrize("words", ["", "GB", "20 G", "20GiB", "-1GB", "1,5GB", "1.GB", "many"])
def test_a_size_that_is_none_is_refused(words: str) -> None:
    with pytest.raises(BertVisionError, match=f"--max-memory is '{words}', a size such as 500MB or 20GB is expected"):
        parse_size("--max-memory", words)


def test_no_size_is_no_size() -> None:
    assert parse_size("--max-disk", None) is None
