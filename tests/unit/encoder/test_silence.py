from pathlib import Path

import pytest
from transformers import BertForQuestionAnswering
from transformers.utils import logging

from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from tiny_run import save_tiny_encoder, tiny_config


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """One with an output that the encoder has no place for, which transformers would report at length."""
    folder = save_tiny_encoder(tmp_path / "checkpoint")
    BertForQuestionAnswering(tiny_config()).save_pretrained(folder)
    return folder


def test_loading_is_silent(checkpoint: str, capfd: pytest.CaptureFixture[str]) -> None:
    capfd.readouterr()
    load_encoder(checkpoint)
    assert capfd.readouterr() == ("", "")


def test_what_transformers_says_elsewhere_is_left_as_it_was(checkpoint: str, tmp_path: Path) -> None:
    def hook(factory: object, _args: object, _kwargs: object) -> object:
        return factory

    before = logging.set_tqdm_hook(hook)
    verbosity = logging.get_verbosity()
    try:
        load_encoder(checkpoint)
        (tmp_path / "empty").mkdir()
        with pytest.raises(BertVisionError, match="cannot be loaded"):
            load_encoder(str(tmp_path / "empty"))
        assert logging.get_verbosity() == verbosity
    finally:
        assert logging.set_tqdm_hook(before) is hook
