"""Error messages say what, got, expected and the next step."""

import pytest

from bertvision.errors import BertVisionError, DataError, MissingExtraError, UnknownNameError, first_line, refuse


def test_an_unknown_name_is_answered_with_the_nearest_known_one() -> None:
    error = UnknownNameError("head", "layermix", ["layer_mix", "last_layer"])
    assert str(error) == "unknown head 'layermix'. Did you mean 'layer_mix'? Known: last_layer, layer_mix."


def test_a_name_like_no_other_gets_the_list_without_a_guess() -> None:
    assert str(UnknownNameError("task", "zzz", ["rte", "cola"])) == "unknown task 'zzz'. Known: cola, rte."


def test_a_missing_extra_comes_with_its_install_command() -> None:
    assert str(MissingExtraError("reading a.parquet", "pyarrow", "data")) == (
        "reading a.parquet needs the package 'pyarrow'. Install it: pip install 'bertvision[data]'"
    )


def test_all_problems_are_told_at_once_and_each_one_time() -> None:
    refuse([])
    with pytest.raises(BertVisionError, match=r"^--a is 0; --b is 1\.$"):
        refuse(["--a is 0", "--b is 1", "--a is 0"])


def test_what_others_say_in_many_lines_is_told_in_one() -> None:
    assert first_line(ValueError("\nno such file\nhave you tried …")) == "no such file"
    assert first_line(ValueError(" \n")) == "ValueError"


@pytest.mark.parametrize("kind", [DataError, UnknownNameError, MissingExtraError])
def test_one_except_clause_catches_every_error_of_ours(kind: type[Exception]) -> None:
    assert issubclass(kind, BertVisionError)
