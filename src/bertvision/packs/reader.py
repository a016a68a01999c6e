"""Reader: token windows → the outputs of a pack's heads, whatever computes them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from bertvision.evaluation.outputs import Outputs, join_heads
from bertvision.packs.card import PackCard
from bertvision.packs.target import Target
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows


@dataclass(frozen=True, slots=True)
class PackQuery:
    """What one pack is asked.

    Attributes:
        pack: number of the pack.
        windows: windows that its heads read; two for pairs apart. Packs that are given the same object share its
            states.
    """

    pack: int
    windows: tuple[Windows, ...]


class Reader(ABC):
    """Packs that can be asked.

    Attributes:
        explains: whether the contributions of layers can be computed.
        cards: cards of all packs.
        tokenizer: tokenizer of the encoder.
    """

    explains: ClassVar[bool] = False

    def __init__(self, cards: Sequence[PackCard], tokenizer: TextTokenizer) -> None:
        self.cards = tuple(cards)
        self.tokenizer = tokenizer

    @final
    def read(self, queries: Sequence[PackQuery]) -> list[Outputs]:
        """The outputs of every query's pack: scores of every token, or one row per example.

        Of several heads the mean is given, as in an ensemble.
        """
        return [
            join_heads(self.cards[query.pack].task, query.windows[0], outputs)
            for query, outputs in zip(queries, self.read_heads(queries), strict=True)
        ]

    @abstractmethod
    def read_heads(self, queries: Sequence[PackQuery]) -> list[list[Outputs]]:
        """The outputs of every head of every query's pack: scores of every token, or one row per window."""

    def contributions(self, query: PackQuery, targets: Sequence[Target]) -> list[NDArray[np.float64]]:
        """What each head took from each layer for an output of it, (layers of the encoder and its embeddings,).

        Raises:
            TypeError: it cannot tell.
        """
        raise TypeError(f"{type(self).__name__} cannot tell what layers contributed to {len(targets)} of {query.pack}")
