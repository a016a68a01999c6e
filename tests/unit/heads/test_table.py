import re

import pytest

from bertvision.heads import HEADS
from bertvision.heads.options import LAYERS, head_options


def test_names_are_words_in_snake_case() -> None:
    assert [name for name in HEADS if not re.fullmatch(r"[a-z]+(_[a-z]+|_\d+)*", name)] == []


@pytest.mark.parametrize("name", HEADS)
def test_a_row_sets_options_that_its_class_has_and_to_other_values_than_the_class(name: str) -> None:
    entry = HEADS[name]
    defaults = {key: option.default for key, option in head_options(entry.head).items()}
    assert set(entry.options) <= set(defaults)
    same = [key for key, value in entry.options.items() if value == defaults[key]]
    assert same == []


def test_no_class_has_an_option_of_the_name_that_every_head_has() -> None:
    assert [name for name, entry in HEADS.items() if LAYERS in head_options(entry.head)] == []


def test_no_two_rows_are_the_same_head() -> None:
    rows = [(entry.head, tuple(sorted(entry.options.items(), key=str))) for entry in HEADS.values()]
    assert len(set(rows)) == len(HEADS)


def test_every_class_has_a_row_with_its_own_defaults() -> None:
    plain = {entry.head for entry in HEADS.values() if not entry.options}
    assert {entry.head for entry in HEADS.values()} == plain


def test_a_summary_is_a_line_and_one_that_goes_on_follows_its_beginning() -> None:
    rows = list(HEADS.values())
    assert [row.summary for row in rows if "\n" in row.summary or len(row.summary) > 80] == []
    going_on = [place for place, row in enumerate(rows) if row.summary.startswith("…")]
    assert going_on
    assert all(place > 0 and rows[place - 1].document == rows[place].document for place in going_on)


def test_heads_that_shrink_a_token_to_a_picture_are_meant_for_rows_of_texts() -> None:
    rows = {name for name, entry in HEADS.items() if "spans" not in entry.kinds}
    assert rows == {"pooled_output", "xception", "xception_skip", "xception_full"}
