"""TextRows: a cache of one row of states per text or pair, so that folds and settings do not encode texts again."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import Lock
from typing import final

import numpy as np
import torch
from torch import Tensor

from bertvision.device import Device
from bertvision.encoder.load import usual_pool
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError
from bertvision.inference.computed_states import encode_texts
from bertvision.inference.frozen_encoder import frozen_passes, load_frozen
from bertvision.inference.pair_rows import join_texts
from bertvision.tasks.batches import example_groups
from bertvision.tasks.examples import IntArray, Texts
from bertvision.tasks.files import check_unicode
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Pairs, Pool
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows

MOST_BYTES = 2 * 1024**3
"""Largest size of the rows that are cached for one encoder; the oldest are dropped first."""

ENCODERS = 2
"""Number of encoders that are kept in memory, with their rows."""


@final
class TextRows:
    """A frozen encoder in float32 and a cache of the rows of texts and of aligned pairs of texts."""

    def __init__(self, encoder: str, *, pool: Pool | None, length: int, device: Device) -> None:
        self.encoder = load_frozen(encoder, device=device, dtype="float32")
        base = base_encoder(encoder)
        self._tokenizer = TextTokenizer.load(base)
        self._pool = pool or usual_pool(encoder)
        self._windows = WindowOptions(length=self._tokenizer.capped(length))
        self._passes = frozen_passes(self.encoder, dtype="float32")
        self._rows: dict[tuple[str, ...], Tensor] = {}
        self._bytes = 0  # of all rows
        self._lock = Lock()  # scikit-learn may run folds in threads

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, texts: Sequence[str], second: Sequence[str] | None = None, *, pairs: Pairs = "aligned") -> Tensor:
        """One row per text or pair, and layer, (rows, layers, parts · width); those not cached are encoded together.

        Args:
            texts: single texts, or the first texts of pairs.
            second: the second texts of pairs; None for single texts.
            pairs: how the texts of a pair are compared, `apart` or `aligned`.
        """
        if second is None:
            return self._cached([(text,) for text in texts], "together")
        if pairs == "apart":  # a text that is in many pairs is encoded once
            return join_texts([self.rows(texts), self.rows(second)])
        return self._cached(list(zip(texts, second, strict=True)), pairs)

    def _cached(self, wanted: Sequence[tuple[str, ...]], pairs: Pairs) -> Tensor:
        """Rows from the cache, to which those that are not there are added."""
        with self._lock:
            new = list(dict.fromkeys(texts for texts in wanted if texts not in self._rows))
            encoded = dict(zip(new, self._encode(new, pairs), strict=True))
            rows = torch.stack([encoded[texts] if texts in encoded else self._rows[texts] for texts in wanted])
            del encoded  # frees the new rows, before they are copied a second time
            place = {texts: number for number, texts in enumerate(wanted)}
            for texts in new:
                self._rows[texts] = rows[place[texts]].clone()  # a copy, since a view would keep all rows in memory
                self._bytes += self._rows[texts].nbytes
            self._drop_oldest()
            return rows

    def _encode(self, new: Sequence[tuple[str, ...]], pairs: Pairs) -> Iterable[Tensor]:
        if not new:
            return []
        windows = [self._cut(list(texts)) for texts in zip(*new, strict=True)]
        return encode_texts(self.encoder, windows, self._passes, pool=self._pool, pairs=pairs)

    def _cut(self, texts: list[str]) -> Windows:
        """One window per text, which is cut to the length."""
        ids = [str(number) for number in range(len(texts))]
        examples = Texts(ids=ids, texts=texts, pairs=None, targets=_NOTHING)
        return build_windows(TASKS["sst2"], examples, self._tokenizer, self._windows)

    def _drop_oldest(self) -> None:
        """Drop rows until the others take at most `MOST_BYTES`."""
        oldest = iter(list(self._rows) if self._bytes > MOST_BYTES else ())
        while self._bytes > MOST_BYTES:
            self._bytes -= self._rows.pop(next(oldest)).nbytes


_NOTHING = np.zeros(0, dtype=np.int64)


@lru_cache(maxsize=ENCODERS)
def text_rows(encoder: str, pool: Pool | None, length: int, device: Device) -> TextRows:
    """A `TextRows`, the same one for the same arguments, so that clones of an estimator share the cache."""
    return TextRows(encoder, pool=pool, length=length, device=device)


def check_texts(inputs: Iterable[object]) -> tuple[list[str], list[str] | None]:
    """First and second texts of pairs; for single texts, these and None.

    Args:
        inputs: texts, or pairs of texts: lists, tuples, an array of shape (rows, 2), a column of a table.

    Raises:
        BertVisionError: there are no inputs, one is of another form, or texts and pairs are mixed.
    """
    if isinstance(inputs, str):
        raise BertVisionError("a list of texts, or of pairs of texts, is expected; one text was given. Use [text].")
    if not isinstance(inputs, Iterable):
        raise BertVisionError(f"{inputs!r} was given; a list of texts, or of pairs of texts, is expected.")
    refuse_table(inputs)
    rows = [_row(row, number) for number, row in enumerate(inputs)]
    if not rows:
        raise BertVisionError("there are no texts: at least one is expected.")
    if len({len(row) for row in rows}) > 1:
        raise BertVisionError("single texts and pairs of texts are mixed. Use one or the other.")
    return [row[0] for row in rows], [row[1] for row in rows] if len(rows[0]) > 1 else None


def text_groups(inputs: Iterable[object]) -> IntArray:
    """Group numbers for cross-validation, (rows,): equal texts, or pairs of texts, have the same number.

    Raises:
        BertVisionError: as `check_texts`.
    """
    texts, pairs = check_texts(inputs)
    ids = [str(number) for number in range(len(texts))]
    groups, _ = example_groups(Texts(ids=ids, texts=texts, pairs=pairs, targets=_NOTHING))
    return groups


def refuse_table(inputs: object) -> None:
    """Refuse a data frame, since iterating over it gives the names of its columns, which would pass as texts.

    Raises:
        BertVisionError: `inputs` is a data frame.
    """
    if hasattr(inputs, "columns"):
        raise BertVisionError(
            f"a table with the columns {', '.join(map(str, inputs.columns))} was given; texts or pairs of texts are "
            "expected. Take one column, such as table['text'], or of two columns their .to_numpy()."
        )


def _row(row: object, number: int) -> tuple[str, ...]:
    """The text or the two texts of one input; `number` is for messages."""
    texts = (row,) if isinstance(row, str) else tuple(row) if isinstance(row, (list, tuple, np.ndarray)) else ()
    if not texts or len(texts) > 2 or not all(isinstance(text, str) for text in texts):
        raise BertVisionError(f"row {number} is {str(row)[:60]!r}; a text or a pair of texts is expected.")
    try:
        check_unicode("".join(texts))
    except ValueError as problem:
        raise BertVisionError(f"row {number} cannot be read: {problem}.") from None
    return tuple(str(text) for text in texts)
