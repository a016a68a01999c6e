"""Document 001's context-aware convolution: filters are generated from each example and applied to it."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.errors import BertVisionError
from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Whole
from bertvision.heads.parts.output import OutputMap


@final
class ContextConv(Head):
    """Convolve the last layer over the tokens with filters that depend on the example, then project.

    The filters come from a convolution over the tokens with ReLU. With `vector`, its maximum over all tokens is one
    context vector, which a second convolution expands to the filters; without, its means over `kernel` equal segments
    of the tokens are the filters. `mask_question` zeroes all tokens but the first and those of the context before the
    generated filters are applied.
    """

    token_wise = False

    def __init__(
        self,
        shape: HeadShape,
        *,
        vector: bool = True,
        filters: Whole = 4,
        kernel: Whole = 6,
        generator: Whole = 5,
        mask_question: bool = False,
    ) -> None:
        super().__init__(shape)
        if not generator % 2:
            raise BertVisionError(f"head 'context_conv': generator is {generator}, an odd number is expected.")
        self.filters = filters
        self.kernel = kernel
        self.mask_question = mask_question
        maps = shape.width if vector else shape.width * filters
        self.generate = nn.Conv1d(shape.width, maps, generator, padding=generator // 2)
        self.spread = nn.Conv1d(1, filters * kernel, 3, padding=1) if vector else None
        self.project = OutputMap(filters, shape.outputs)

    @property
    @override
    def needs(self) -> Sequence[int]:
        return (self.shape.layers - 1,)

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        tokens = torch.where(mask[..., None], states[:, -1], 0.0)  # (batch, tokens, width)
        filters = self._filters(tokens, mask)  # (batch, filters, kernel, width)
        if self.mask_question and context is not None:
            tokens = torch.where(_visible(context, mask)[..., None], tokens, 0.0)
        products = torch.einsum("btw,bfkw->btfk", tokens, filters)  # every token with each of a filter's kernel taps
        padded = nn.functional.pad(products, (0, 0, 0, 0, (self.kernel - 1) // 2, self.kernel // 2))
        length = tokens.shape[1]
        convolved = sum(padded[:, tap : tap + length, :, tap] for tap in range(self.kernel))  # (batch, tokens, filters)
        outputs: Tensor = self.project(convolved * (self.kernel * self.shape.width) ** -0.5)
        return outputs

    def _filters(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The filters of every example, (batch, filters, kernel, width)."""
        maps = self.generate(tokens.transpose(1, 2)).relu() * mask[:, None]  # (batch, maps, tokens)
        if self.spread is not None:
            vector = maps.amax(dim=2, keepdim=True)  # (batch, width, 1): 0 in padding is never larger
            spread: Tensor = self.spread(vector.transpose(1, 2))
            return spread.reshape(tokens.shape[0], self.filters, self.kernel, -1)
        place = torch.where(mask, mask.cumsum(dim=1) - 1, 0)  # number among the real tokens
        segment = place * self.kernel // mask.sum(dim=1, keepdim=True)  # (batch, tokens)
        member = nn.functional.one_hot(segment, self.kernel) * mask[..., None]
        weights = (member / member.sum(dim=1, keepdim=True).clamp(min=1)).to(maps.dtype)  # (batch, tokens, kernel)
        means = torch.einsum("bmt,btk->bkm", maps, weights)
        return means.reshape(tokens.shape[0], self.kernel, self.filters, -1).transpose(1, 2)


def _visible(context: Tensor, mask: Tensor) -> Tensor:
    """Mask of the context tokens and the first token; of all real tokens where an example has no context."""
    first = torch.zeros_like(mask)
    first[:, 0] = True
    return torch.where(context.any(dim=1, keepdim=True), (context | first) & mask, mask)
