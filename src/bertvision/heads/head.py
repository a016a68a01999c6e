"""Head and HeadShape: the whole contract between hidden states and outputs."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.parts.output import OutputMap
from bertvision.heads.parts.pool import LayerPool
from bertvision.heads.parts.token_attention import TokenAttention

OptionValue = float | int | bool | str | tuple[int, ...] | None
"""What an option of a head may be."""

HeadOptions = Mapping[str, OptionValue]
"""Options of a head, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """What a head may not choose.

    Attributes:
        layers: layers there are to read, the embedding output counted.
        width: numbers per token and layer.
        outputs: numbers it gives per token.
    """

    layers: int
    width: int
    outputs: int

    @override
    def __str__(self) -> str:
        return f"{self.layers} layers of width {self.width}, {self.outputs} outputs"


class Head(nn.Module, ABC):
    """Hidden states → one output row per token, whatever stands in padding or in other examples.

    A subclass takes a shape and keyword options with types and defaults, which are all there is to configure; it is
    built through `build_head`, which fills in the attributes below.

    Attributes:
        name: under which it was built.
        options: all of its options.
        shape: of the states it reads.
        full_shape: of the encoder's states, of which it may read a part.
        project: its last map, whose bias is the first guess.
        token_pool: how it makes one row of a text's tokens before it reads them, for labels, tags and scores; None
            leaves that to others.
        token_wise: whether a token's row depends on that token alone, so that windows may be packed end to end.
    """

    first_layer: ClassVar[int] = 0
    """The lowest layer that this kind of head reads, unless the option `layers` says otherwise."""

    name: str
    options: dict[str, OptionValue]
    project: OutputMap
    full_shape: HeadShape
    token_wise: bool = True

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        self.full_shape = shape
        self.lowest = 0
        self.token_pool: TokenAttention | None = None

    @property
    def needs(self) -> Sequence[int]:
        """The layers it needs, in ascending order, counted from the lowest that it may read."""
        return range(self.shape.layers)

    @property
    @final
    def reads(self) -> tuple[int, ...]:
        """The layers it needs, in ascending order, as the encoder numbers them: 0 is the embedding output."""
        return tuple(self.lowest + layer for layer in self.needs)

    @property
    @final
    def depth(self) -> int:
        """The last layer it needs: the encoder may stop there."""
        return self.reads[-1]

    @final
    def among(self, lowest: int) -> slice:
        """Where the layers it needs stand among neighbouring ones, of which the first has the number `lowest`."""
        reads = self.reads
        return slice(reads[0] - lowest, reads[-1] - lowest + 1)

    def layer_weights(self) -> Tensor | None:
        """What it has learned to multiply each layer by, (sets of weights, layers), for any token; None if nothing.

        The layers are those from `lowest` on. Most heads have one set for all outputs.
        """
        pools = [part for part in self.modules() if isinstance(part, LayerPool)]
        return torch.stack([pool.learned() for pool in pools]) if pools else None

    def layer_attention(self, states: Tensor) -> Tensor | None:  # noqa: ARG002 - those that attend look at them
        """How much each layer of a token counts in each output, (batch, layers, tokens, outputs), in sum 1.

        None if it does not attend to layers.

        Args:
            states: (batch, layers, tokens, width), the layers that `reads` names.
        """
        return None

    def compile_steps(self) -> None:
        """Compile what it does again and again, layer by layer, where there is such a thing."""

    @override
    @abstractmethod
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        """Outputs, (batch, tokens, outputs).

        Args:
            states: (batch, layers, tokens, width), the layers that `reads` names.
            mask: (batch, tokens) True where a token is real.
            context: (batch, tokens) True where a token belongs to the second text, the context of a question; None
                where nobody knows.
        """


class LayerwiseHead(Head):
    """A head that takes little from each layer by itself: it can follow an encoder, which then keeps no layer."""

    @abstractmethod
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        """What it takes from some layers, each (batch, layers, tokens, numbers).

        Args:
            states: (batch, layers, tokens, width), neighbouring layers of those that `reads` names.
            first: which of those is the first, 0 being the lowest.
        """

    @abstractmethod
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        """Outputs, (batch, tokens, outputs), from the parts of all layers."""

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        return self.combine(self.parts(states), mask)


@dataclass(frozen=True, slots=True)
class WindowBounds:
    """Windows that stand end to end in one row.

    Attributes:
        bounds: (windows + 1,) int32, where each begins among all tokens; windows of padding are among them.
        longest: no window has more tokens.
        real: (1, all tokens) True where a token is no padding; None where all are.
    """

    bounds: Tensor
    longest: int
    real: Tensor | None


class PackedHead(LayerwiseHead):
    """A head that looks at other tokens, and can keep windows that stand end to end apart by their bounds."""

    @abstractmethod
    def takes_packed(self, parts: tuple[Tensor, ...]) -> bool:
        """Whether it can read windows end to end of which it took these; if not, it gets them padded."""

    @abstractmethod
    def combine_packed(self, parts: tuple[Tensor, ...], windows: WindowBounds) -> Tensor:
        """Outputs, (1, all tokens, outputs), from the parts of all layers.

        Args:
            parts: each (1, layers, all tokens, numbers).
            windows: where each begins, and what is padding.
        """


def layers_read(heads: Iterable[Head]) -> range:
    """From the lowest to the highest layer that any of these heads reads."""
    reads = [head.reads for head in heads]
    return range(min(layers[0] for layers in reads), max(layers[-1] for layers in reads) + 1)
