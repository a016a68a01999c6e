from dataclasses import dataclass
from pathlib import Path

import pytest

from bertvision.bench.environment import BenchEnvironment, agrees, settings_digest
from bertvision.errors import BertVisionError


def test_data_are_found_below_one_folder(tmp_path: Path) -> None:
    (tmp_path / "squad2").mkdir()
    environment = BenchEnvironment(data=tmp_path)
    assert environment.find_data("squad2") == str(tmp_path / "squad2")
    assert environment.find_data("builtin") is None
    with pytest.raises(BertVisionError, match=r"needs the data 'glue', and .* holds none of that name"):
        environment.find_data("glue")
    with pytest.raises(BertVisionError, match=r"needs the data 'squad2'. Say where they are: --data DIR"):
        BenchEnvironment().find_data("squad2")


def test_an_encoder_is_where_it_is_said_to_be() -> None:
    environment = BenchEnvironment(encoders={"mpnet": "models/m"})
    assert (environment.find_encoder("mpnet"), environment.find_encoder("minilm")) == ("models/m", "minilm")


@dataclass(frozen=True)
class Before:
    size: float = 1.0
    inner: "Before | None" = None


@dataclass(frozen=True)
class After:
    size: float = 1.0
    inner: "After | None" = None
    word: str = "new"


def test_a_word_that_kinds_learn_later_changes_no_digest() -> None:
    assert settings_digest("k", Before(2), 0) == settings_digest("k", After(2.0), 0)
    assert settings_digest("k", Before(2, Before(3)), 0) == settings_digest("k", After(2, After(3)), 0)
    assert settings_digest("k", After(2), 0) != settings_digest("k", After(2, word="other"), 0)
    assert settings_digest("k", Before(2, Before(3)), 0) != settings_digest("k", Before(2, Before(4)), 0)


def test_settings_of_a_record_agree_but_for_words_that_are_new() -> None:
    before = {"size": 1, "inner": {"size": 2}}
    assert agrees(before, {"size": 1.0, "inner": {"size": 2, "word": "new"}, "word": "new"})
    assert not agrees(before, {"size": 1, "inner": {"size": 3}})
    assert not agrees(before, {"size": 1, "inner": None})
    assert not agrees(before, {"size": 1})
    several = {"of": [{"size": 1}, {"size": 2}]}
    assert agrees(several, {"of": [{"size": 1, "word": "new"}, {"size": 2, "word": "new"}]})
    assert not agrees(several, {"of": [{"size": 1}, {"size": 3}]})
    assert not agrees(several, {"of": [{"size": 1}]})
