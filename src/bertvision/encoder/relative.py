"""MPNet's attention through torch's fused kernels, which take its relative position bias as an additive mask.

In transformers' version, every layer writes and reads the attention scores of all pairs of tokens several times, and
the bias is copied for every window.
"""

from typing import Any, final

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.mpnet.modeling_mpnet import MPNetEncoder, MPNetSelfAttention
from typing_extensions import override

BUCKETS = 32
"""Number of MPNet's buckets for relative positions; transformers uses it whatever the config says."""


@final
class _Attention(MPNetSelfAttention):  # type: ignore[misc]  # transformers has no types
    """MPNet's attention, computed by a fused kernel that does not store the attention scores."""

    @override
    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        output_attentions: bool = False,
        **_other: Any,
    ) -> tuple[Tensor]:
        shape = (*hidden_states.shape[:-1], -1, self.attention_head_size)
        query, key, value = (part(hidden_states).view(shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        mask = None if position_bias is None else position_bias.to(query.dtype)
        output = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return (self.o(output.transpose(1, 2).flatten(2)),)


@final
class _Layers(MPNetEncoder):  # type: ignore[misc]  # transformers has no types
    """MPNet's layers, for which padding mask and relative position bias become one mask, made once for all layers."""

    @override
    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, **_other: Any) -> BaseModelOutput:
        bias = self._bias(hidden_states.shape[1], hidden_states.device)
        if torch.is_autocast_enabled(bias.device.type):  # once here instead of in every layer
            bias = bias.to(torch.get_autocast_dtype(bias.device.type))
        if attention_mask is not None and attention_mask.dtype is torch.bool:  # True where a token is real
            bias = bias.masked_fill(~attention_mask, torch.finfo(bias.dtype).min)
        elif attention_mask is not None:  # additive, as transformers makes it
            bias = bias + attention_mask.to(bias.dtype)
        for layer in self.layer:
            hidden_states = layer(hidden_states, None, bias)[0]
        return BaseModelOutput(last_hidden_state=hidden_states)

    def _bias(self, tokens: int, device: torch.device) -> Tensor:
        """The relative position bias of every pair of tokens, (1, heads, tokens, tokens).

        Computed on `device`: a GPU would have to wait for a copy from the CPU.
        """
        places = torch.arange(tokens, device=device)
        bucket = self.relative_position_bucket(places - places[:, None], num_buckets=BUCKETS)
        bias: Tensor = self.relative_attention_bias(bucket).permute(2, 0, 1)
        return bias[None]


def speed_up_attention(model: nn.Module) -> None:
    """Make an MPNet compute attention by fused kernels, which the other models use already."""
    kinds: dict[type[nn.Module], type[nn.Module]] = {MPNetSelfAttention: _Attention, MPNetEncoder: _Layers}
    for module in model.modules():
        module.__class__ = kinds.get(type(module), type(module))
