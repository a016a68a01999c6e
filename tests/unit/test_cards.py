"""A card is read in one way, and refused in one way."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from bertvision.cards import read_card
from bertvision.errors import BertVisionError
from bertvision.typed_json import from_json


@dataclass(frozen=True)
class Card:
    name: str
    sizes: tuple[int, str] = (0, "")


def write(folder: Path, content: object) -> Path:
    path = folder / "card.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def read(path: Path, record: str | None = None) -> Card:
    return read_card(path, partial(from_json, Card), format=2, record=record, otherwise="Make it again.")


def test_what_a_card_says_comes_back_without_what_tells_its_format(tmp_path: Path) -> None:
    assert read(write(tmp_path, {"format": 2, "name": "a"})) == Card("a")
    whole = {"format": 2, "version": "3.1", "record": "kind", "name": "a", "sizes": [3, "b"]}
    assert read(write(tmp_path, whole), "kind") == Card("a", (3, "b"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"format": 1, "name": "a"}, r"has format 1, 2 is expected\. Make it again\."),
        (
            {"format": 1, "version": "0.3"},
            r"has format 1, 2 is expected; it was made by version 0\.3, this is .*\. Make it again\.",
        ),
        ({"format": 2, "record": "other"}, r"is a record of kind 'other', 'kind' is expected\. Make it again\."),
        ({"format": 2, "name": "a"}, r"cannot be read \('record' is missing\)\. Make it again\."),
        ({"format": 2, "record": "kind"}, r"cannot be read \('name' is missing\)\. Make it again\."),
        ({"name": "a"}, r"cannot be read \('format' is missing\)\. Make it again\."),
        ({"format": 2, "record": "kind", "name": 3}, r"cannot be read \(3 is not of type .*\)\. Make it again\."),
        ([], r"cannot be read \(.*\)\. Make it again\."),
        ("3", r"cannot be read \(.*\)\. Make it again\."),
        ("{", r"cannot be read \(.*\)\. Make it again\."),
        ("[" * 100_000, r"cannot be read \(maximum recursion depth .*\)\. Make it again\."),
    ],
)
def test_what_is_no_such_card_is_refused(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(BertVisionError, match=rf"^{tmp_path}/card\.json {message}$"):
        read(write(tmp_path, content), "kind")


def test_a_card_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"card\.json cannot be read \(.*No such file"):
        read(tmp_path / "card.json")
