"""Document 002's encoder model: a transformer block whose query is the output vector, and whose keys are the layers."""

from typing import ClassVar, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape
from bertvision.heads.options import Share, Whole
from bertvision.heads.parts.float32_products import has_kernels, layer_scores
from bertvision.heads.parts.output import OutputMap


@final
class EncoderAttention(Head):
    """One transformer block per token: the output weight vectors are queries, the token's layers are keys and values.

    An output is the dot product of its weight vector with the block's result.
    """

    first_layer: ClassVar[int] = 1

    def __init__(
        self, shape: HeadShape, *, heads: Whole = 8, size: Whole = 64, expand: Whole = 4, dropout: Share = 0.1
    ) -> None:
        super().__init__(shape)
        self.heads = heads
        inner = heads * size
        self.query = nn.Linear(shape.width, inner)
        self.key = nn.Linear(shape.width, inner, bias=False)  # one bias for all layers would change no softmax
        self.value = nn.Linear(shape.width, inner)
        self.merge = nn.Linear(inner, shape.width)
        self.attention_norm = nn.LayerNorm(shape.width)
        self.feed_forward = nn.Sequential(
            nn.Linear(shape.width, expand * shape.width), nn.GELU(), nn.Linear(expand * shape.width, shape.width)
        )
        self.output_norm = nn.LayerNorm(shape.width)
        self.dropout = nn.Dropout(dropout)
        self.project = OutputMap(shape.width, shape.outputs)

    @override
    def layer_attention(self, states: Tensor) -> Tensor:
        weights = self._weights(states)
        return weights.reshape(*weights.shape[:3], self.shape.outputs, self.heads).mean(dim=-1)

    @override
    def compile_steps(self) -> None:
        self._outputs = torch.compile(self._outputs, dynamic=True)  # type: ignore[method-assign]  # for this one alone

    @override
    def forward(self, states: Tensor, mask: Tensor, context: Tensor | None = None) -> Tensor:
        return self._outputs(self._attend(states))

    def _attend(self, states: Tensor) -> Tensor:
        """Attention without the value bias, heads concatenated, (batch, tokens, outputs, heads · size)."""
        weights = self._weights(states)
        # values of the mixtures, not mixtures of the values: there are fewer mixtures than layers
        values = self.value.weight.reshape(self.heads, -1, self.shape.width).to(states.dtype)  # (heads, size, width)
        if has_kernels(states, weights.shape[3]) and not states.requires_grad:
            from bertvision.heads.parts.mixtures import layer_mixtures  # noqa: PLC0415 - needs Triton

            read = torch.bmm(layer_mixtures(weights, states, self.heads), values.transpose(1, 2))
            return read.transpose(0, 1).reshape(states.shape[0], states.shape[2], self.shape.outputs, -1)
        mixtures = torch.einsum("bltn,bltw->btnw", weights.to(states.dtype), states)
        mixtures = mixtures.reshape(*mixtures.shape[:2], self.shape.outputs, self.heads, -1)
        return torch.einsum("btohw,hdw->btohd", mixtures, values).flatten(-2)

    def _outputs(self, read: Tensor) -> Tensor:
        """The rest of the block, and the dot product of its result with the query: (batch, tokens, outputs)."""
        queries = self.project.weight  # (outputs, width)
        read = read + self.value.bias  # once: weights sum to 1
        mixed = self.attention_norm(queries + self.dropout(self.merge(read)))  # (batch, tokens, outputs, width)
        token: Tensor = self.output_norm(mixed + self.dropout(self.feed_forward(mixed)))
        return (queries * token.float()).sum(dim=-1) + self.project.bias

    def _weights(self, states: Tensor) -> Tensor:
        """Attention weights over the layers, (batch, layers, tokens, outputs · heads)."""
        return layer_scores(states, self._projected_queries()).softmax(dim=1)

    def _projected_queries(self) -> Tensor:
        """Scaled queries times the key projection, (outputs · heads, width): q · (K h) = (Kᵀ q) · h needs no keys."""
        queries = self.query(self.project.weight).reshape(self.shape.outputs, self.heads, -1)  # (outputs, heads, size)
        keys = self.key.weight.reshape(self.heads, -1, self.shape.width)  # (heads, size, width)
        projected: Tensor = torch.einsum("ohd,hdw->ohw", queries.to(keys.dtype), keys) * queries.shape[-1] ** -0.5
        return projected.flatten(0, 1)
