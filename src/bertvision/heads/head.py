"""Head and HeadShape: the whole contract between hidden states and outputs."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor, nn
from typing_extensions import override


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """What a head may not choose.

    Attributes:
        layers: layers it is given, the embedding output counted.
        width: numbers per token and layer.
        outputs: numbers it gives per token.
    """

    layers: int
    width: int
    outputs: int


class Head(nn.Module, ABC):
    """Hidden states → one output row per token, whatever stands in padding or in other examples."""

    token_wise: bool = True
    """Whether a token's row depends on that token alone, so that windows may be packed end to end."""

    @property
    def reads(self) -> tuple[int, ...] | None:
        """The layers it needs, counted from the end (-1 is the last); None means all that there are."""
        return None

    @override
    @abstractmethod
    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        """Outputs, (batch, tokens, outputs).

        Args:
            states: (batch, layers, tokens, width), the layers that `reads` names.
            mask: (batch, tokens) True where a token is real.
        """
