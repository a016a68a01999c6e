"""Head and HeadShape: the whole contract between hidden states and outputs."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.heads.parts.output import OutputMap
from bertvision.heads.parts.pool import LayerPool
from bertvision.heads.parts.token_attention import TokenAttention

OptionValue = float | int | bool | str | tuple[int, ...] | None
"""What an option of a head may be."""

HeadOptions = Mapping[str, OptionValue]
"""Options of a head, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """Input and output sizes of a head, which encoder and task decide.

    Attributes:
        layers: number of layers in the states, the embedding output included.
        width: hidden size of the encoder.
        outputs: number of outputs (logits) per token.
    """

    layers: int
    width: int
    outputs: int

    def __post_init__(self) -> None:
        if min(self.layers, self.width, self.outputs) < 1:
            raise BertVisionError(f"a head was asked for {self}; at least 1 of each is expected.")

    @override
    def __str__(self) -> str:
        return f"{self.layers} layers of width {self.width}, {self.outputs} outputs"


class Head(nn.Module, ABC):
    """A small network that maps the hidden states of all layers to one row of outputs per token.

    Neither padding nor the other examples of a batch change a row. The constructor of a subclass takes a `HeadShape`
    and keyword options with types and defaults; nothing else can be configured. `build_head` calls it, and sets `name`,
    `options`, `full_shape` and `lowest`.

    Attributes:
        name: its name in `HEADS`.
        options: the value of every option.
        shape: input and output sizes; `shape.layers` counts the layers that the option `layers` selects.
        full_shape: the same for all layers of the encoder.
        lowest: the encoder's number of the first of the selected layers.
        project: the final linear map; where targets are scores, its bias starts at their mean.
        token_pool: attention pooling over the tokens of a text, applied before the head (option `tokens`); None if the
            caller pools. For labels, tags and scores only.
        token_wise: True if a token's outputs depend on that token alone; then windows may be packed end to end.
    """

    first_layer: ClassVar[int] = 0
    """The lowest layer that this class reads by default (option `layers`)."""

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
        """Numbers of the layers it needs, ascending, where 0 is `lowest`."""
        return range(self.shape.layers)

    @property
    @final
    def reads(self) -> tuple[int, ...]:
        """The encoder's numbers of the layers it needs, ascending; 0 is the embedding output."""
        return tuple(self.lowest + layer for layer in self.needs)

    @property
    @final
    def depth(self) -> int:
        """The last layer it needs: the encoder may stop there."""
        return self.reads[-1]

    @final
    def among(self, lowest: int) -> slice:
        """Slice of the layers it needs from consecutive layers that start at the encoder's layer `lowest`."""
        reads = self.reads
        return slice(reads[0] - lowest, reads[-1] - lowest + 1)

    def layer_weights(self) -> Tensor | None:
        """Learned layer weights, the same for every token: (sets of weights, layers); None if it has none.

        The first layer is `lowest`. Most heads have one set of weights for all outputs.
        """
        pools = [part for part in self.modules() if isinstance(part, LayerPool)]
        return torch.stack([pool.learned() for pool in pools]) if pools else None

    def layer_attention(self, states: Tensor) -> Tensor | None:  # noqa: ARG002 - subclasses with attention use them
        """Attention weights over the layers, (batch, layers, tokens, outputs); they sum to 1 over the layers.

        None if the head has no attention over layers.

        Args:
            states: (batch, layers, tokens, width), the layers that `reads` names.
        """
        return None

    def compile_steps(self) -> None:
        """Compile (`torch.compile`) the step that is repeated for every layer, if the head has one."""

    @override
    @abstractmethod
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        """Outputs, (batch, tokens, outputs).

        Args:
            states: (batch, layers, tokens, width), the layers that `reads` names.
            mask: (batch, tokens) True where a token is real.
            context: (batch, tokens) True where a token belongs to the second text, such as the context of a question;
                None if unknown.
        """


class LayerwiseHead(Head):
    """A head that first reduces every layer by itself to a few numbers per token, and then combines these.

    The first step can run while the encoder computes, layer by layer, so that no hidden states have to be kept.
    """

    @abstractmethod
    def parts(self, states: Tensor, first: int = 0) -> tuple[Tensor, ...]:
        """The first step: one or more tensors, each (batch, layers, tokens, numbers), for the given layers.

        Args:
            states: (batch, layers, tokens, width), consecutive layers out of those that `reads` names.
            first: index in `reads` of the first of them.
        """

    @abstractmethod
    def combine(self, parts: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        """The second step: outputs, (batch, tokens, outputs).

        Args:
            parts: results of `parts`, concatenated along the layers so that they cover all that `reads` names.
            mask: (batch, tokens) True where a token is real.
        """

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        return self.combine(self.parts(states), mask)


@dataclass(frozen=True, slots=True)
class WindowBounds:
    """Where windows that are packed end to end into one row begin and end.

    Attributes:
        bounds: (windows + 1,) int32, cumulative lengths; windows that consist of padding are included.
        longest: upper bound of the windows' lengths.
        real: (1, all tokens) True where a token is real; None if there is no padding.
    """

    bounds: Tensor
    longest: int
    real: Tensor | None


class PackedHead(LayerwiseHead):
    """A head with attention between the tokens of a window that also works on windows packed end to end."""

    @abstractmethod
    def takes_packed(self, parts: tuple[Tensor, ...]) -> bool:
        """Whether `combine_packed` supports the device and type of these parts; if not, windows must be padded."""

    @abstractmethod
    def combine_packed(self, parts: tuple[Tensor, ...], windows: WindowBounds) -> Tensor:
        """As `combine`, for packed windows: outputs, (1, all tokens, outputs).

        Args:
            parts: each (1, layers, all tokens, numbers).
            windows: bounds of the windows, and which tokens are padding.
        """


def layers_read(heads: Iterable[Head]) -> range:
    """The range of layers, in the encoder's numbers, that covers all layers these heads need."""
    reads = [head.reads for head in heads]
    return range(min(layers[0] for layers in reads), max(layers[-1] for layers in reads) + 1)
