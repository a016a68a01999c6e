"""SharedRows: rows of states for several tasks, which encode a text, or pair of texts, that they share only once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import final

import numpy as np
import torch
from torch import Tensor

from bertvision.encoder.encoder import Encoder
from bertvision.inference.computed_states import encode_texts
from bertvision.inference.outputs import PassOptions
from bertvision.inference.pair_rows import join_texts
from bertvision.tasks.task import Pairs, Pool
from bertvision.tasks.token_rows import TokenRows, join_rows

Content = tuple[bytes, ...]
"""The tokens of a text, or of the two texts of an aligned pair: what determines a row."""


@final
class SharedRows:
    """The rows of all windows that were given to the constructor, in memory.

    Attributes:
        asked: number of rows before equal ones were found; `len()` counts those that were encoded.
    """

    def __init__(
        self, encoder: Encoder, parts: Iterable[tuple[Sequence[TokenRows], Pairs]], options: PassOptions, pool: Pool
    ) -> None:
        """Encode every distinct text, or aligned pair of texts, once.

        Args:
            encoder: frozen.
            parts: windows of any tasks and splits, as `encode_texts` takes them.
            options: how the forward pass is computed.
            pool: how the tokens of a window become one row.
        """
        all_units: dict[Pairs, list[Sequence[TokenRows]]] = {}
        for texts, pairs in parts:
            all_units.setdefault("aligned" if pairs == "aligned" else "together", []).extend(_units(texts, pairs))
        self.asked = 0
        self._rows: dict[Content, Tensor] = {}
        for pairs, units in all_units.items():
            columns = [join_rows(list(windows)) for windows in zip(*units, strict=True)]
            self.asked += len(columns[0])
            first: dict[Content, int] = {}
            for row, content in enumerate(_contents(columns)):
                first.setdefault(content, row)
            distinct = [windows.select(np.array(list(first.values()))) for windows in columns]
            self._rows |= zip(first, encode_texts(encoder, distinct, options, pool=pool, pairs=pairs), strict=True)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, texts: Sequence[TokenRows], pairs: Pairs) -> Tensor:
        """One row per example and layer; the arguments and the result are those of `encode_texts`."""
        return join_texts(
            [torch.stack([self._rows[content] for content in _contents(unit)]) for unit in _units(texts, pairs)]
        )


def _units(texts: Sequence[TokenRows], pairs: Pairs) -> list[Sequence[TokenRows]]:
    """The windows that are encoded as one row: both texts of an aligned pair, otherwise each text by itself."""
    return [texts] if pairs == "aligned" else [[windows] for windows in texts]


def _contents(texts: Sequence[TokenRows]) -> Iterator[Content]:
    """The content of every row of a unit."""
    return zip(*(windows.contents() for windows in texts), strict=True)
