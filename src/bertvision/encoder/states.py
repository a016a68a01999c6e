"""HiddenStates: hidden states from an encoder or a store, with their mask; shapes are checked here and nowhere else."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """Hidden states of a batch at all or some layers.

    Attributes:
        states: (batch, layers, tokens, width); layer 0 is the embedding output.
        mask: (batch, tokens) True where a token is real.
        pooled: (batch, width) the encoder's own pooled vector; None if there is none or it was not requested.
        context: (batch, tokens) True where a token belongs to the second text; None if unknown.
    """

    states: Tensor
    mask: Tensor
    pooled: Tensor | None = None
    context: Tensor | None = None

    def __post_init__(self) -> None:
        if self.states.ndim != 4:
            raise ValueError(
                f"states have shape {tuple(self.states.shape)}, (batch, layers, tokens, width) is expected"
            )
        if self.mask.dtype != torch.bool:
            raise ValueError(f"the mask is {self.mask.dtype}, torch.bool is expected")
        batch, _, tokens, width = self.states.shape
        if self.mask.shape != (batch, tokens):
            raise ValueError(f"the mask has shape {tuple(self.mask.shape)}, {(batch, tokens)} is expected")
        if self.pooled is not None and self.pooled.shape != (batch, width):
            raise ValueError(f"the pooled vector has shape {tuple(self.pooled.shape)}, {(batch, width)} is expected")
        if self.context is not None and self.context.shape != (batch, tokens):
            raise ValueError(f"the context has shape {tuple(self.context.shape)}, {(batch, tokens)} is expected")

    @property
    def layers(self) -> int:
        """Number of layers in `states`; the embedding output counts."""
        return self.states.shape[1]

    def with_pooled(self) -> "HiddenStates":
        """A copy with the pooled vector as one more layer, number 0, the same for every token.

        Raises:
            ValueError: there is no pooled vector.
        """
        if self.pooled is None:
            raise ValueError("there is no pooled vector to add")
        extra = self.pooled[:, None, None].expand(-1, 1, self.states.shape[2], -1)
        return replace(self, states=torch.cat([extra, self.states], dim=1))
