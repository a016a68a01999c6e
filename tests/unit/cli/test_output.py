"""Tables on standard output."""

import pytest

from bertvision.cli.output import print_table


def test_a_long_path_in_a_title_stays_whole_and_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    title = f"{'folder/' * 40}run[bold]: 2 heads, best first"
    print_table(title, ["head"], [["ladder"]])
    assert capsys.readouterr().out.splitlines()[0] == title
