"""VectorCache: states and embeddings of texts, encoded once for all cells that read them."""

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

Encode = Callable[..., Vectors]
"""Texts, or the first and the second texts of pairs, → one row for each, or one for each and layer."""


@final
class VectorCache:
    """Vectors of texts on disk: kept in 16 bits, with the seconds that it took to encode them.

    Attributes:
        encoder: its name.
        place: where its files are.
        asked: where to compute, in the words of the user.
        device: the same in the words of torch.
        length: most tokens of a text.
        weights: the encoder's fingerprint; another one has vectors of its own.
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
        """The states of all layers, (examples, layers, parts · width), and seconds; texts of pairs are aligned."""
        # the reader anew for each list of texts: what it has seen in another would come for nothing
        kind, columns = "layers", [examples.texts]
        if examples.pairs is not None:
            kind, columns = "aligned", [examples.texts, examples.pairs]
        return self._kept(kind, columns, lambda: self.reader(self.encoder))

    def embeddings(self, texts: Sequence[str]) -> tuple[Vectors, float]:
        """What sentence-transformers gives, (texts, width), and seconds."""
        return self._kept("embeddings", [texts], self._embedder)

    def reader(self, encoder: str) -> Encode:
        """What reads texts as `layers` does, by this or another encoder; nothing is kept on disk."""
        rows = TextRows(encoder, pool="mean", length=self.length, device=self.asked)

        def encode(*columns: Sequence[str]) -> Vectors:
            found: Vectors = rows.rows(*columns).cpu().numpy()
            return found

        return encode

    def _kept(self, kind: str, columns: Sequence[Sequence[str]], load: Callable[[], Encode]) -> tuple[Vectors, float]:
        texts = [text for column in columns for text in column]
        words = [self.weights, str(self.length), self.device, *texts]
        digest = hashlib.sha256("\0".join(words).encode(errors="surrogatepass")).hexdigest()[:16]
        file, told = (self._folder / f"{kind}-{digest}{ending}" for ending in (".npy", ".json"))
        if not told.exists():  # it is written last
            tell(self._show, f"encoding {len(texts):,} texts, {kind} …")
            encode = load()
            encode(*([WARM] for _ in columns))  # the first pass is slower, and not timed
            begin = time.perf_counter()
            vectors = encode(*columns)
            seconds = time.perf_counter() - begin
            self._folder.mkdir(parents=True, exist_ok=True)
            np.save(file, vectors.astype(np.float16))
            write_json(told, {"kind": kind, "texts": len(texts), "seconds": seconds})
        return np.load(file).astype(np.float32), float(read_json(told)["seconds"])

    def _embedder(self) -> Encode:
        def encode(texts: Sequence[str]) -> Vectors:
            found: Vectors = self._sentences.encode(list(texts), show_progress_bar=False)
            return found

        return encode

    @cached_property
    def _sentences(self) -> Any:  # noqa: ANN401 - of an untyped library
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an extra

        return SentenceTransformer(self.place, device=self.device)
