"""TokenRows: what an encoder sees of windows, and which windows are the same to it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertvision.tasks.examples import IntArray

SECOND = 2
"""Segment number of a second text where the tokenizer gives both texts 0, as RoBERTa's does: heads know the texts apart
by it, and the encoder is given 0."""


@dataclass(frozen=True, slots=True)
class TokenRows:
    """Token windows end to end, without padding.

    Attributes:
        ids: (tokens,) vocabulary numbers, special tokens included.
        types: (tokens,) segment numbers; more than 0 is the second text, see `SECOND`.
        bounds: (windows + 1,) window w has the tokens bounds[w] to bounds[w + 1].
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
        """Tokens that an encoder reads for each window, (windows,)."""
        return self.lengths

    def contents(self) -> Iterator[bytes]:
        """The tokens of every window as bytes: two with the same content have the same states."""
        for begin, end in zip(self.bounds.tolist(), self.bounds[1:].tolist(), strict=False):
            yield self.ids[begin:end].tobytes() + self.types[begin:end].tobytes()

    def places(self, rows: IntArray) -> IntArray:
        """Where the tokens of the windows at `rows` stand among all tokens."""
        return ranges(self.bounds[rows], self.lengths[rows])

    def padded(
        self, rows: IntArray, pad: int, *, multiple: int = 1, limit: int | None = None
    ) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """Ids, segment numbers, and which tokens are real, of the windows at `rows`, each (rows, longest of them).

        Args:
            rows: which windows.
            pad: number of the padding token.
            multiple: round the length up to a multiple of this, so that few lengths occur.
            limit: but not beyond this; None has no end.
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
    """The numbers from every start on, as many as its length, one range after the other."""
    before = np.cumsum(lengths) - lengths  # numbers before each range
    numbers: IntArray = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
    return numbers


def join_rows(parts: list[TokenRows]) -> TokenRows:
    """The windows of all parts, one part after the other."""
    bases = np.cumsum([0, *(len(part.ids) for part in parts)])
    bounds = [part.bounds[1:] + base for part, base in zip(parts, bases, strict=False)]
    return TokenRows(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.types for part in parts]),
        np.concatenate([np.zeros(1, dtype=np.int64), *bounds]),
    )
