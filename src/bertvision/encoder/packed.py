"""Attention within windows that are given by their bounds in a row of tokens, not by a mask.

Windows are concatenated without padding, or padded to one length: then the padding behind each counts as a window of
its own. The kernel needs no mask, with which attention on a GPU is slower.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from bertvision.encoder.batch import window_places

PACKED = "bertvision_packed"
"""Name of this attention in transformers' registry."""


def packed_attention(  # noqa: PLR0913 - transformers gives the signature
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001 - bounds take its place
    *,
    scaling: float | None = None,
    window_bounds: Tensor | None = None,
    window_longest: int = 0,
    sliding_window: int | None = None,
    **_other: Any,  # noqa: ANN401 - transformers passes more than we need
) -> tuple[Tensor, None]:
    """Attention with the signature transformers expects: (rows, heads, tokens, size) → (rows, tokens, heads, size).

    Bounds are places among the tokens of all rows, one row after the other. There is no dropout of attention weights,
    since the kernel has none.
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
    """Attention by torch's kernel for windows of different lengths.

    Compiled layers contain it without a graph break, which would take longer than the kernel itself.
    """
    from torch.nn.attention.varlen import varlen_attn  # noqa: PLC0415 - CUDA only

    # under autocast, rotary embeddings may give float32 queries and keys, which the kernel does not support
    flat_query, flat_key, flat_value = (
        tensor.transpose(1, 2).flatten(0, 1).to(value.dtype) for tensor in (query, key, value)
    )
    reach = -1 if sliding_window is None else sliding_window - 1
    output = varlen_attn(
        flat_query, flat_key, flat_value, bounds, bounds, longest, longest, scale=scaling, window_size=(reach, reach)
    )
    rows, heads, tokens, width = query.shape
    return cast("Tensor", output).view(rows, tokens, heads, width)


def _masked(  # noqa: PLR0913, PLR0917 - as the kernel
    query: Tensor, key: Tensor, value: Tensor, bounds: Tensor, scaling: float | None, sliding_window: int | None
) -> Tensor:
    """The same with a mask over all pairs of tokens: for CPUs, and as the reference in tests."""
    rows, heads, length, width = query.shape
    query, key, value = (tensor.transpose(0, 1).flatten(1, 2)[None] for tensor in (query, key, value))
    tokens = rows * length
    window, _ = window_places(bounds, tokens)
    visible = window[:, None] == window[None, :]
    if sliding_window is not None:
        place = torch.arange(tokens, device=query.device)
        visible &= (place[:, None] - place[None, :]).abs() < sliding_window
    output = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=visible, scale=scaling)
    return output.transpose(1, 2).reshape(rows, length, heads, width)


def padded_bounds(mask: Tensor) -> Tensor:
    """Bounds of every padded window and of the padding behind it, from the mask: (2 · windows + 1,) int32.

    Args:
        mask: (windows, tokens) True where a token is real; padding is on the right.
    """
    windows, tokens = mask.shape
    begins = tokens * torch.arange(windows + 1, dtype=torch.int32, device=mask.device)
    ends = begins[:-1] + mask.sum(dim=1, dtype=torch.int32)
    return torch.cat([torch.stack([begins[:-1], ends], dim=1).flatten(), begins[-1:]])


AttentionInterface.register(PACKED, packed_attention)
