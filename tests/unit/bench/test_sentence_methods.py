"""SetFit learns where it is installed; what the other methods give is told in the tests of their cells."""

import warnings
from pathlib import Path

import pytest

from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.sentence_methods import METHODS
from bertvision.bench.sentence_settings import SentenceSettings
from bertvision.bench.sentences_cell import measure_sentences


@pytest.mark.slow
def test_setfit_labels_films(tmp_path: Path) -> None:
    pytest.importorskip("setfit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its packages are theirs
        settings = SentenceSettings(methods=("setfit",), per_class=5)
        [model] = measure_sentences(settings, 0, BenchEnvironment(work=tmp_path, device="cpu"))["models"].values()
    assert model["scores"]["plain"]["accuracy"] > 0.6
    assert model["parameters"] > 22_000_000


def test_ours_need_nothing_that_is_not_always_installed() -> None:
    assert [name for name, method in METHODS.items() if not method.needs] == ["last_layer", "layer_concat", "triplets"]
