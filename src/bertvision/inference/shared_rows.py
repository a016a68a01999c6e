"""SharedRows: pooled states of the texts of several tasks; every distinct text is encoded once."""

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
"""The tokens of a text, or of two that are compared token by token, so that one row stands for both."""


@final
class SharedRows:
    """The rows of all windows that were passed to the constructor, in memory.

    Attributes:
        asked: how many rows it was made for.
    """

    def __init__(
        self, encoder: Encoder, parts: Iterable[tuple[Sequence[TokenRows], Pairs]], options: PassOptions, pool: Pool
    ) -> None:
        """Encode every different text once, and every different pair whose texts are aligned.

        Args:
            encoder: frozen.
            parts: windows of any tasks and splits, as `encode_texts` takes them.
            options: how the encoder is run.
            pool: which row stands for a window.
        """
        together: dict[Pairs, list[Sequence[TokenRows]]] = {}
        for texts, pairs in parts:
            together.setdefault("aligned" if pairs == "aligned" else "together", []).extend(_units(texts, pairs))
        self.asked = 0
        self._rows: dict[Content, Tensor] = {}
        for pairs, units in together.items():
            whole = [join_rows(list(windows)) for windows in zip(*units, strict=True)]
            self.asked += len(whole[0])
            first: dict[Content, int] = {}
            for row, content in enumerate(_contents(whole)):
                first.setdefault(content, row)
            different = [windows.select(np.array(list(first.values()))) for windows in whole]
            self._rows |= zip(first, encode_texts(encoder, different, options, pool=pool, pairs=pairs), strict=True)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, texts: Sequence[TokenRows], pairs: Pairs) -> Tensor:
        """One row per example and layer, as `encode_texts` gives them."""
        found = [torch.stack([self._rows[content] for content in _contents(unit)]) for unit in _units(texts, pairs)]
        return join_texts(found)


def _units(texts: Sequence[TokenRows], pairs: Pairs) -> list[Sequence[TokenRows]]:
    """The windows that share one row: the two texts of an aligned pair, else every text by itself."""
    return [texts] if pairs == "aligned" else [[windows] for windows in texts]


def _contents(texts: Sequence[TokenRows]) -> Iterator[Content]:
    return zip(*(windows.contents() for windows in texts), strict=True)
