"""Attention over windows one after the other: every token sees its own window alone.

Windows stand end to end without padding, or are padded to one length: then the padding of each is a window of its own,
and the kernel needs no mask, with which a GPU attends more slowly.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

PACKED = "bertvision_packed"
"""The name under which transformers models find it."""

WIDEST = 192
"""Numbers of the widest head that the kernel takes both ways on every GPU; some take wider ones."""

MIN_CAPABILITY = (8, 0)
"""Lowest compute capability of a GPU that it runs on."""


def packed_attention(  # noqa: PLR0913 - transformers gives the signature
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 - windows are told apart by their bounds
    *,
    scaling: float | None = None,
    window_bounds: Tensor | None = None,
    window_longest: int = 0,
    sliding_window: int | None = None,
    **_other: Any,  # noqa: ANN401 - transformers passes more than we need
) -> tuple[Tensor, None]:
    """Attention in the form transformers calls it: (rows, heads, tokens, width) → (rows, tokens, heads, width).

    Bounds count through the tokens of all rows. Dropout of attention weights is left out: the kernel has none.
    """
    if window_bounds is None:
        raise ValueError(f"{type(module).__name__} was called without window bounds")
    if query.device.type == "cuda":
        return kernel_attention(query, key, value, window_bounds, window_longest, scaling, sliding_window), None
    return _masked(query, key, value, window_bounds, scaling, sliding_window), None


def kernel_attention(  # noqa: PLR0913, PLR0917 - what the kernel needs
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bounds: Tensor,
    longest: int,
    scaling: float | None,
    sliding_window: int | None,
) -> Tensor:
    """Attention by the kernel for windows of any length; traced as one graph, as a break would take longer than it."""
    from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 - CUDA only

    # rotated queries and keys may have become float32 under autocast, which the kernel does not know
    flat_query, flat_key, flat_value = (
        tensor.transpose(1, 2).flatten(0, 1).to(value.dtype) for tensor in (query, key, value)
    )
    reach = -1 if sliding_window is None else sliding_window - 1
    output = varlen_attn(
        flat_query, flat_key, flat_value, bounds, bounds, longest, longest, scale=scaling, window_size=(reach, reach)
    )
    rows, heads, tokens, width = query.shape
    return cast("Tensor", output).view(rows, tokens, heads, width)


def has_kernel(tokens: Tensor, width: int) -> bool:
    """Whether the kernel supports the device and type of these tokens, and heads of this width."""
    narrow = tokens.dtype in {torch.bfloat16, torch.float16}
    if not (tokens.is_cuda and narrow and width % 8 == 0 and width <= WIDEST):
        return False
    return (
        torch.backends.cuda.is_flash_attention_available()
        and torch.cuda.get_device_capability(tokens.device) >= MIN_CAPABILITY
    )


def _masked(  # noqa: PLR0913, PLR0917 - as the kernel
    query: Tensor, key: Tensor, value: Tensor, bounds: Tensor, scaling: float | None, sliding_window: int | None
) -> Tensor:
    """The same attention by a mask over all pairs of tokens: for machines without the kernel, and to test against."""
    rows, heads, length, width = query.shape
    query, key, value = (tensor.transpose(0, 1).flatten(1, 2)[None] for tensor in (query, key, value))
    tokens = rows * length
    place = torch.arange(tokens, device=query.device)
    window = torch.bucketize(place, bounds[1:].long(), right=True)
    visible = window[:, None] == window[None, :]
    if sliding_window is not None:
        visible &= (place[:, None] - place[None, :]).abs() < sliding_window
    output = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=visible, scale=scaling)
    return output.transpose(1, 2).reshape(rows, length, heads, width)


def padded_bounds(mask: Tensor) -> Tensor:
    """Where padded windows and their paddings begin by turns: (windows, tokens) → (2 × windows + 1,) int32."""
    windows, tokens = mask.shape
    begins = tokens * torch.arange(windows + 1, dtype=torch.int32, device=mask.device)
    ends = begins[:-1] + mask.sum(dim=1, dtype=torch.int32)
    return torch.cat([torch.stack([begins[:-1], ends], dim=1).flatten(), begins[-1:]])


AttentionInterface.register(PACKED, packed_attention)
