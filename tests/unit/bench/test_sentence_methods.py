"""Methods that need packages which may be missing say what to install; SetFit learns where it is installed."""

import sys
import warnings
from pathlib import Path

import pytest

from bertvision.bench.sentence_methods import VectorCache
from bertvision.bench.sentences import SentenceSettings, measure_sentences
from bertvision.errors import BertVisionError


@pytest.mark.parametrize(("method", "package"), [("embeddings", "sentence_transformers"), ("setfit", "setfit")])
def test_a_missing_package_is_named(method: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"method '{method}' needs {package}. Install it: pip install 'bertvision\[bench\]'"
    with pytest.raises(BertVisionError, match=message):
        measure_sentences(SentenceSettings(method=method, shots=2), 0, tmp_path)


def test_vectors_that_were_not_written_to_the_end_are_encoded_again(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, "minilm")
    before, _ = cache.layers(["a film"])
    (told,) = tmp_path.glob("*.json")
    told.unlink()
    next(tmp_path.glob("*.npy")).write_bytes(b"cut")
    after, seconds = cache.layers(["a film"])
    assert (before == after).all()
    assert before.shape == (1, 7, 384)
    assert seconds > 0


@pytest.mark.slow
def test_setfit_labels_films(tmp_path: Path) -> None:
    pytest.importorskip("setfit")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of its packages are theirs
        found = measure_sentences(SentenceSettings(method="setfit", shots=4), 0, tmp_path)
    assert found["metrics"]["accuracy"] > 0.6
    assert found["parameters"] > 22_000_000
