"""TokenRows: token ids and segment numbers of windows, the input of an encoder."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertvision.tasks.examples import IntArray

SECOND = 2
"""Segment number of the second text for tokenizers that give both texts 0, as RoBERTa's does: heads tell the texts
apart by it, and the encoder is given 0 instead."""


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Token windows, concatenated without padding.

    Attributes:
        ids: (tokens,) token ids, special tokens included.
        types: (tokens,) segment numbers (token type ids); greater than 0 for the second text, see `SECOND`.
        bounds: (windows + 1,) window w consists of the tokens `bounds[w]:bounds[w + 1]`.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.uint8]
    bounds: IntArray

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def lengths(self) -> IntArray:
        """Tokens per window, (windows,)."""
        return np.diff(self.bounds)

    @property
    def sizes(self) -> IntArray:
        """Tokens that an encoder processes for each window, (windows,); the same as `lengths` here."""
        return self.lengths

    def contents(self) -> Iterator[bytes]:
        """Tokens and segment numbers of every window as bytes; windows with equal bytes have equal states."""
        for begin, end in zip(self.bounds.tolist(), self.bounds[1:].tolist(), strict=False):
            yield self.ids[begin:end].tobytes() + self.types[begin:end].tobytes()

    def places(self, rows: IntArray) -> IntArray:
        """Indices into `ids` of all tokens of the windows at `rows`, one window after the other, (tokens,)."""
        return ranges(self.bounds[rows], self.lengths[rows])

    def padded(
        self, rows: IntArray, pad: int, *, multiple: int = 1, limit: int | None = None
    ) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """Token ids, segment numbers and mask (True for real tokens) of the windows at `rows`, each (rows, tokens).

        Args:
            rows: window numbers.
            pad: id of the padding token.
            multiple: round the number of tokens up to a multiple of this, so that few different lengths occur.
            limit: maximum to round up to; longer windows are not cut. None rounds without a maximum.
        """
        lengths = self.lengths[rows]
        longest = int(lengths.max())
        rounded = -(-longest // multiple) * multiple
        columns = np.arange(rounded if limit is None else max(longest, min(rounded, limit)))
        real = columns < lengths[:, None]
        source = self.bounds[rows, None] + np.minimum(columns, lengths[:, None] - 1)
        ids = np.where(real, self.ids[source], pad).astype(np.int64)
        types = np.where(real, self.types[source], 0).astype(np.int64)
        return ids, types, real

    def select(self, rows: IntArray) -> "TokenRows":
        """The windows at `rows`, in that order."""
        places = self.places(rows)
        bounds = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.lengths[rows])])
        return TokenRows(self.ids[places], self.types[places], bounds)


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """Concatenated ranges `start, …, start + length - 1`, one for each pair of start and length."""
    before = np.cumsum(lengths) - lengths  # total length of the ranges before each one
    numbers: IntArray = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return numbers


def join_rows(parts: list[TokenRows]) -> TokenRows:
    """Concatenate windows."""
    bases = np.cumsum([0, *(len(part.ids) for part in parts)])
    bounds = [part.bounds[1:] + base for part, base in zip(parts, bases, strict=False)]
    return TokenRows(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.types for part in parts]),
        np.concatenate([np.zeros(1, dtype=np.int64), *bounds]),
    )
