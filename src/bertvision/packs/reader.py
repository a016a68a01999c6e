"""Reader: token windows → the outputs of packs, computed by PyTorch or by the runtime of an exported pack."""

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
    """Windows for one pack to read.

    Attributes:
        pack: index of the pack among those of the reader.
        windows: windows of the texts; for pairs that are encoded separately, of first and of second texts. If several
            queries hold the same `Windows` object, its states are computed once.
    """

    pack: int
    windows: tuple[Windows, ...]


class Reader(ABC):
    """Packs that are loaded and can be run.

    Attributes:
        explains: whether it implements `contributions`.
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

        Of several heads it is the mean, see `join_heads`.
        """
        return [
            join_heads(self.cards[query.pack].task, query.windows[0], outputs)
            for query, outputs in zip(queries, self.read_heads(queries), strict=True)
        ]

    @abstractmethod
    def read_heads(self, queries: Sequence[PackQuery]) -> list[list[Outputs]]:
        """The outputs of every head of every query's pack: scores of every token, or one row per window."""

    def contributions(self, query: PackQuery, targets: Sequence[Target]) -> list[NDArray[np.float64]]:
        """How much each layer contributed to outputs of each head of a pack, see `LayerReader`.

        Args:
            query: windows for the pack.
            targets: for each head, the outputs to explain.

        Returns:
            For each head, (layers of the encoder + 1,), the embedding output first.

        Raises:
            TypeError: `explains` is False.
        """
        raise TypeError(f"{type(self).__name__} cannot tell what layers contributed to {len(targets)} of {query.pack}")
