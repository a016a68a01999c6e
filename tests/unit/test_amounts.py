import pytest

from bertvision.amounts import in_bytes, in_layers, in_seconds, in_tokens, in_words


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 epochs"), (1, "1 epoch"), (1.0, "1 epoch"), (0.3, "0.3 epochs"), (1234567, "1,234,567 epochs")],
)
def test_what_is_counted_has_its_number(count: float, expected: str) -> None:
    assert in_words(count, "epoch") == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 KB"),
        (1234, "1.23 KB"),
        (999_400, "999 KB"),
        (999_700, "1 MB"),
        (45_600_000, "45.6 MB"),
        (999_700_000, "1 GB"),
        (19_400_000_000, "19.4 GB"),
        (999.7e9, "1,000 GB"),
        (2.5e12, "2,500 GB"),
    ],
)
def test_bytes_have_three_digits_and_a_unit(count: float, expected: str) -> None:
    assert in_bytes(count) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.04, "0.0 s"), (89, "89.0 s"), (90, "1.5 min"), (5399, "90.0 min"), (5400, "1.5 h")]
)
def test_times_have_the_unit_that_suits_them(seconds: float, expected: str) -> None:
    assert in_seconds(seconds) == expected


def test_layers_are_told_by_the_first_and_the_last() -> None:
    assert (in_layers(range(7)), in_layers(range(2, 3))) == ("0..6", "2..2")


def test_tokens_are_counted_in_millions_when_there_are_many() -> None:
    assert (in_tokens(99_999), in_tokens(3_610_000)) == ("99,999 tokens", "3.61 million tokens")
