"""Vectors of texts: encoded once, whole or not at all, and anew for another encoder."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertvision.bench.sentence_vectors import VectorCache
from bertvision.tasks.examples import Texts
from close import KEPT
from tiny_run import save_tiny_encoder

Open = Callable[..., VectorCache]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder") / "tiny")


@pytest.fixture
def open_cache(encoder: str, tmp_path: Path) -> Open:
    def open_one(length: int = 64) -> VectorCache:
        return VectorCache(tmp_path, encoder, length=length, device="cpu")

    return open_one


def examples(*texts: str, pairs: list[str] | None = None) -> Texts:
    ids = [str(number) for number in range(len(texts))]
    return Texts(ids=ids, texts=list(texts), pairs=pairs, targets=np.zeros(len(texts)))


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_texts_are_encoded_once(open_cache: Open, tmp_path: Path) -> None:
    first, seconds = open_cache().layers(examples("good a", "bad b"))
    kept = files(tmp_path)
    again, told = open_cache().layers(examples("good a", "bad b"))
    assert (again == first).all()
    assert told == seconds > 0
    assert files(tmp_path) == kept
    assert first.shape == (2, 3, 16)
    open_cache().layers(examples("bad b", "good a"))
    open_cache(length=3).layers(examples("good a", "bad b"))
    assert len(files(tmp_path)) == 3 * 2
    pairs, _ = open_cache().layers(examples("good a", pairs=["bad b"]))
    assert pairs.shape == (1, 3, 6 * 16)
    assert len(files(tmp_path)) == 4 * 2


def test_vectors_that_were_not_written_to_the_end_are_encoded_again(open_cache: Open, tmp_path: Path) -> None:
    before, _ = open_cache().layers(examples("a"))
    next(tmp_path.glob("*.json")).unlink()
    next(tmp_path.glob("*.npy")).write_bytes(b"cut")
    after, _ = open_cache().layers(examples("a"))
    assert (before == after).all()


def test_embeddings_of_an_encoder_of_sentences_are_the_last_layer_at_length_1(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    cache = VectorCache(tmp_path, "minilm", length=64, device="cpu")
    texts = ["a film that nobody should miss", "short"]
    last = cache.layers(examples(*texts))[0][:, -1]
    expected = last / np.linalg.norm(last, axis=1, keepdims=True)
    np.testing.assert_allclose(cache.embeddings(texts)[0], expected, atol=KEPT)
    assert len(list(tmp_path.glob("embeddings-*.npy"))) == 1
