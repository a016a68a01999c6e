"""TextRows: one row of states per text or pair, encoded once however often folds and settings ask for it."""

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
"""Rows that one encoder keeps in memory; the oldest go first."""

ENCODERS = 2
"""Encoders that are kept in memory, with their rows."""


@final
class TextRows:
    """A frozen encoder, and the rows of the texts, and of the aligned pairs of texts, that it has seen."""

    def __init__(self, encoder: str, *, pool: Pool | None, length: int, device: Device) -> None:
        self.encoder = load_frozen(encoder, device=device, dtype="float32")
        base = base_encoder(encoder)
        self._tokenizer = TextTokenizer.load(base)
        self._pool = pool or usual_pool(encoder)
        self._windows = WindowOptions(length=self._tokenizer.capped(length))
        self._passes = frozen_passes(self.encoder, dtype="float32")
        self._rows: dict[tuple[str, ...], Tensor] = {}
        self._lock = Lock()  # threads share it, as folds of scikit-learn in threads do

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, texts: Sequence[str], second: Sequence[str] | None = None, *, pairs: Pairs = "aligned") -> Tensor:
        """One row per text or pair, and layer, (rows, layers, parts · width); what is new is encoded in one pass.

        Args:
            texts: single ones, or the first of pairs.
            second: the second of pairs.
            pairs: `apart` or `aligned`.
        """
        if second is None:
            return self._known([(text,) for text in texts], "together")
        if pairs == "apart":  # a text is encoded once, in however many pairs it stands
            return join_texts([self.rows(texts), self.rows(second)])
        return self._known(list(zip(texts, second, strict=True)), pairs)

    def _known(self, wanted: Sequence[tuple[str, ...]], pairs: Pairs) -> Tensor:
        with self._lock:
            new = list(dict.fromkeys(texts for texts in wanted if texts not in self._rows))
            known = self._rows | dict(zip(new, self._encode(new, pairs), strict=True))
            rows = torch.stack([known[texts] for texts in wanted])
            del known  # and with it what was encoded, of which there are never three copies
            place = {texts: number for number, texts in enumerate(wanted)}
            # copies: what is left of a tensor would keep all of it in memory
            self._rows |= {texts: rows[place[texts]].clone() for texts in new}
            self._forget()
            return rows

    def _encode(self, new: Sequence[tuple[str, ...]], pairs: Pairs) -> Iterable[Tensor]:
        if not new:
            return []
        columns = [self._cut(list(column)) for column in zip(*new, strict=True)]
        return encode_texts(self.encoder, columns, self._passes, pool=self._pool, pairs=pairs)

    def _cut(self, texts: list[str]) -> Windows:
        ids = [str(number) for number in range(len(texts))]
        examples = Texts(ids=ids, texts=texts, pairs=None, targets=_NOTHING)
        return build_windows(TASKS["sst2"], examples, self._tokenizer, self._windows)

    def _forget(self) -> None:
        spare = sum(row.nbytes for row in self._rows.values()) - MOST_BYTES
        for texts in list(self._rows):
            if spare <= 0:
                break
            spare -= self._rows.pop(texts).nbytes


_NOTHING = np.zeros(0, dtype=np.int64)


@lru_cache(maxsize=ENCODERS)
def text_rows(encoder: str, pool: Pool | None, length: int, device: Device) -> TextRows:
    """The rows of an encoder's texts: the same object for the same arguments, so that clones share it."""
    return TextRows(encoder, pool=pool, length=length, device=device)


def check_texts(inputs: Iterable[object]) -> tuple[list[str], list[str] | None]:
    """First texts and second texts; None for the second where they are single.

    Args:
        inputs: texts, or pairs of texts: lists, tuples, an array of shape (rows, 2), a column of a table.

    Raises:
        BertVisionError: there is something else among them, or nothing at all.
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
    """The number of each different text, or pair of texts, (rows,): copies have the same.

    Raises:
        BertVisionError: as `check_texts`.
    """
    texts, pairs = check_texts(inputs)
    ids = [str(number) for number in range(len(texts))]
    groups, _ = example_groups(Texts(ids=ids, texts=texts, pairs=pairs, targets=_NOTHING))
    return groups


def refuse_table(inputs: object) -> None:
    """Refuse a data frame: going through it gives the names of its columns, which are texts, too.

    Raises:
        BertVisionError: it is one.
    """
    if hasattr(inputs, "columns"):
        raise BertVisionError(
            f"a table with the columns {', '.join(map(str, inputs.columns))} was given; texts or pairs of texts are "
            "expected. Take one column, such as table['text'], or of two columns their .to_numpy()."
        )


def _row(row: object, number: int) -> tuple[str, ...]:
    texts = (row,) if isinstance(row, str) else tuple(row) if isinstance(row, (list, tuple, np.ndarray)) else ()
    if not texts or len(texts) > 2 or not all(isinstance(text, str) for text in texts):
        raise BertVisionError(f"row {number} is {str(row)[:60]!r}; a text or a pair of texts is expected.")
    try:
        check_unicode("".join(texts))
    except ValueError as problem:
        raise BertVisionError(f"row {number} cannot be read: {problem}.") from None
    return tuple(str(text) for text in texts)
