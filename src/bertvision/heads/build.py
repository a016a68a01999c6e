"""build_head: make a head from its name and its options."""

from collections.abc import Mapping

import torch

from bertvision.amounts import in_layers
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads.head import Head, HeadOptions, HeadShape, OptionValue
from bertvision.heads.options import ATTENTION, LAYERS, TOKENS, check_options, parse_layers
from bertvision.heads.parts.convolution import MaskedBatchNorm
from bertvision.heads.parts.token_attention import TokenAttention
from bertvision.heads.table import HEADS


def build_head(name: str, shape: HeadShape, options: HeadOptions | Mapping[str, object] | None = None) -> Head:
    """Build a head with freshly initialised weights.

    Args:
        name: one of `HEADS`.
        shape: input and output sizes, with all layers of the encoder.
        options: values that differ from the defaults, also as strings. Every head has `layers`: "0..6" restricts it to
            these layers, as if the encoder had no others. Heads that treat each token by itself have `tokens`:
            "attention" adds learned attention pooling over the tokens, for labels, tags and scores.

    Raises:
        BertVisionError: an unknown head or option, or an invalid value.

    Example:
        >>> from bertvision.heads import HeadShape, build_head
        >>> shape = HeadShape(layers=13, width=768, outputs=2)
        >>> build_head("adapter_pool", shape, {"size": 64, "layers": "0..6"}).depth
        6
    """
    if name not in HEADS:
        raise UnknownNameError("head", name, HEADS)
    entry = HEADS[name]
    given: dict[str, OptionValue] = {**entry.options, **(options or {})}  # type: ignore[dict-item]  # checked below
    tokens = given.pop(TOKENS, None)
    layers = parse_layers(given.pop(LAYERS, None), shape.layers, entry.head.first_layer)
    checked = check_options(name, entry.head, given)
    read = HeadShape(layers=len(layers), width=shape.width, outputs=shape.outputs)
    head = entry.head(read, **checked)
    head.name, head.full_shape, head.lowest = name, shape, layers[0]
    head.options = {**checked, LAYERS: in_layers(layers)}
    if tokens is not None:
        _pool_tokens(head, tokens)
    return head


def _pool_tokens(head: Head, tokens: OptionValue) -> None:
    if tokens != ATTENTION:
        raise BertVisionError(f"head '{head.name}': option {TOKENS} is {tokens!r}, {ATTENTION} is expected.")
    if not head.token_wise:
        raise BertVisionError(f"head '{head.name}' looks at neighbouring tokens. Leave {TOKENS}={ATTENTION} out.")
    head.token_pool = TokenAttention(len(head.needs), head.shape.width)
    head.options[TOKENS] = ATTENTION


def blank_head(name: str, shape: HeadShape, options: HeadOptions | Mapping[str, object] | None = None) -> Head:
    """As `build_head`, on the meta device, without memory for the weights: for counting parameters."""
    with torch.device("meta"):
        return build_head(name, shape, options)


def count_parameters(head: Head) -> int:
    """Number of parameters; as in Keras, the running statistics of batch normalisation are included."""
    running = sum(2 * len(part.weight) for part in head.modules() if isinstance(part, MaskedBatchNorm))
    return running + sum(value.numel() for value in head.parameters())
