"""cli/learn_options.py: what commands that change an encoder ask for."""

import pytest

from bertvision.cli.options import parse_options
from bertvision.cli.tune import Options


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ([], 384),
        (["--recipe", "bertvision"], 386),
        (["--recipe", "minbert"], 512),
        (["--recipe", "minbert", "--length", "384"], 384),
    ],
)
def test_a_recipe_says_how_long_windows_are_unless_the_user_does(words: list[str], length: int) -> None:
    options = parse_options(Options, ["squad2", *words], prog="tune", summary="Tunes.", examples=())
    assert options.fields_of("squad2")["windows"].length == length
