"""VectorCache: pooled states and embeddings of texts on disk, encoded once for all cells that read them."""

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from bertvision.atomic import write_json
from bertvision.device import Device, choose_device
from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.estimators.rows import TextRows
from bertvision.pretrained import locate_encoder
from bertvision.runs.watch import Show, tell
from bertvision.tasks.examples import Texts
from bertvision.tasks.files import read_json
from bertvision.tasks.tokenizer import TextTokenizer

Vectors = NDArray[np.float32]

WARM = "a text that stands nowhere else"
"""Text of the warm-up pass, which no data contain, so that the reader's cache does not shorten the timed pass."""

Encode = Callable[..., Vectors]
"""Texts, or first and second texts of pairs, → (examples, width), or (examples, layers, parts · width)."""


@final
class VectorCache:
    """A cache of texts' vectors on disk, in float16, with the seconds of encoding them.

    Attributes:
        encoder: name or path of the encoder.
        place: path or hub name of its files, for sentence-transformers.
        asked: the requested device, which may be `auto`.
        device: torch's name of the device in use.
        length: maximum number of tokens of a text.
        weights: fingerprint of the encoder, part of the cache's keys.
    """

    def __init__(self, folder: Path, encoder: str, *, length: int, device: Device, show: Show | None = None) -> None:
        self.encoder = encoder
        self.place = locate_encoder(encoder)
        self.asked: Device = device
        self.device = str(choose_device(device))
        self.weights = fingerprint(load_encoder(encoder))
        self._folder = folder
        self.length = TextTokenizer.load(encoder).capped(length)
        self._show = show

    def layers(self, examples: Texts) -> tuple[Vectors, float]:
        """Pooled states of all layers, (examples, layers, parts · width), and seconds; texts of pairs are aligned."""
        # a new reader for each list of texts: a used one has cached rows, which would take no time
        kind, columns = "layers", [examples.texts]
        if examples.pairs is not None:
            kind, columns = "aligned", [examples.texts, examples.pairs]
        return self._cached(kind, columns, lambda: self.reader(self.encoder))

    def embeddings(self, texts: Sequence[str]) -> tuple[Vectors, float]:
        """Embeddings by sentence-transformers, (texts, width), and seconds."""
        return self._cached("embeddings", [texts], self._embedder)

    def reader(self, encoder: str) -> Encode:
        """A function that encodes texts as `layers` does, with this or another encoder, without the cache on disk."""
        rows = TextRows(encoder, pool="mean", length=self.length, device=self.asked)

        def encode(*columns: Sequence[str]) -> Vectors:
            vectors: Vectors = rows.rows(*columns).cpu().numpy()
            return vectors

        return encode

    def _cached(self, kind: str, columns: Sequence[Sequence[str]], load: Callable[[], Encode]) -> tuple[Vectors, float]:
        """Vectors and seconds from the cache; encodes the texts if they are not in it. `load` makes the encoder."""
        texts = [text for column in columns for text in column]
        words = [self.weights, str(self.length), self.device, *texts]
        digest = hashlib.sha256("\0".join(words).encode(errors="surrogatepass")).hexdigest()[:16]
        file, about = (self._folder / f"{kind}-{digest}{ending}" for ending in (".npy", ".json"))
        if not about.exists():  # it is written last, so the vectors are complete if it exists
            tell(self._show, f"encoding {len(texts):,} texts, {kind} …")
            encode = load()
            encode(*([WARM] for _ in columns))  # warm-up: the first pass is slower
            begin = time.perf_counter()
            vectors = encode(*columns)
            seconds = time.perf_counter() - begin
            self._folder.mkdir(parents=True, exist_ok=True)
            np.save(file, vectors.astype(np.float16))
            write_json(about, {"kind": kind, "texts": len(texts), "seconds": seconds})
        return np.load(file).astype(np.float32), float(read_json(about)["seconds"])

    def _embedder(self) -> Encode:
        def encode(texts: Sequence[str]) -> Vectors:
            vectors: Vectors = self._sentences.encode(list(texts), show_progress_bar=False)
            return vectors

        return encode

    @cached_property
    def _sentences(self) -> Any:  # noqa: ANN401 - of an untyped library
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an extra

        return SentenceTransformer(self.place, device=self.device)
