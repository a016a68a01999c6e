"""Two texts as one row of every layer: compared as wholes and, if wanted, token by token."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertvision.encoder.states import HiddenStates
from bertvision.objectives import pool_rows
from bertvision.tasks.task import Pairs, Pool
from bertvision.training.linear_problem import Layout

SHARPNESS = 30.0
"""Inverse temperature of the soft alignment: a softmax over cosine similarities."""

PARTS: dict[Pairs, int] = {"together": 1, "apart": 2, "aligned": 6}
"""Number of parts in a row, each as wide as the encoder."""

ALIKE: dict[Pairs, int] = {"together": 0, "apart": 2, "aligned": 4}
"""Number of parts, the first ones, whose sum over the width measures how similar the two texts are."""


def row_layout(layers: int, pairs: Pairs) -> Layout:
    """The layout of the numbers in a row: layers, parts of each, and which parts measure similarity."""
    return Layout(layers=layers, parts=PARTS[pairs], alike=ALIKE[pairs])


def read_texts(texts: Sequence[HiddenStates], pool: Pool, pairs: Pairs) -> Tensor:
    """Pool states to one row per example and layer, (examples, layers, parts · width); pairs of texts are compared.

    Args:
        texts: the states of the texts; of pairs, those of the first and of the second texts.
        pool: how states are pooled over the tokens.
        pairs: how two texts become one row.
    """
    if pairs == "aligned":
        first, second = texts
        return compare_tokens(first, second, pool)
    return join_texts([pool_rows(text.states.float(), text.mask, pool) for text in texts])


def join_texts(rows: Sequence[Tensor]) -> Tensor:
    """The rows of single texts as they are; those of first and second texts compared, see `compare_rows`."""
    first, *second = rows
    return compare_rows(first, *second) if second else first


def compare_rows(first: Tensor, second: Tensor) -> Tensor:
    """Compare the rows of two texts: |u - v| and the elementwise product u ∘ v, concatenated, (…, 2 · width).

    Every layer's row is normalised to length 1 first, so that differences in length do not hide what the texts share.
    The sum of each part over the width then measures their similarity; that of the second is their cosine.
    """
    return torch.cat(_difference_product(*(nn.functional.normalize(rows, dim=-1) for rows in (first, second))), dim=-1)


def compare_tokens(first: HiddenStates, second: HiddenStates, pool: Pool) -> Tensor:
    """Compare two texts layer by layer, as wholes and token by token, (pairs, layers, 6 · width).

    Parts 1 and 2 are `compare_rows` of the pooled texts. For the others, every token t, normalised, is aligned with
    the tokens of the other text: n is their mean, weighted by a softmax over cosine similarities (see `SHARPNESS`; a
    hard maximum would depend on rounding between equally near tokens). Parts 3 and 4 are |t - n| and the elementwise
    product t ∘ n, averaged over the tokens of each text and then over both texts. Parts 5 and 6 are the means of
    (1 - ⟨t, n⟩) t over the tokens of the first and of the second text: they show which words have no counterpart, which
    pooling would hide.
    """
    both = zip(first.states.unbind(dim=1), second.states.unbind(dim=1), strict=True)
    masks = first.mask, second.mask
    # one layer after the other, so that comparing takes the memory of one
    return torch.stack([_compare_layer(one.float(), two.float(), masks, pool) for one, two in both], dim=1)


def _compare_layer(first: Tensor, second: Tensor, masks: tuple[Tensor, Tensor], pool: Pool) -> Tensor:
    """`compare_tokens` for one layer, (pairs, tokens, width) each → (pairs, 6 · width)."""
    wholes = compare_rows(*(pool_rows(text, mask, pool) for text, mask in zip((first, second), masks, strict=True)))
    one, two = (nn.functional.normalize(text, dim=-1) for text in (first, second))
    mine = _compare_nearest(one, two, *masks)
    others = _compare_nearest(two, one, *masks[::-1])
    both = [(here + there) / 2 for here, there in zip(mine[:2], others[:2], strict=True)]
    return torch.cat([wholes, *both, mine[2], others[2]], dim=-1)


def _compare_nearest(tokens: Tensor, others: Tensor, mask: Tensor, others_mask: Tensor) -> tuple[Tensor, ...]:
    """Means over `tokens` of |t - n|, t ∘ n and (1 - ⟨t, n⟩) t, each (pairs, width); see `compare_tokens`."""
    query, keys = tokens[:, None], others[:, None]  # as one attention head: ONNX and fast kernels want four axes
    attend = nn.functional.scaled_dot_product_attention
    nearest = attend(query, keys, keys, attn_mask=others_mask[:, None, None], scale=SHARPNESS)[:, 0]
    difference, product = _difference_product(tokens, nearest)
    unmatched = tokens * (1.0 - product.sum(dim=-1, keepdim=True))
    return tuple(pool_rows(part, mask, "mean") for part in (difference, product, unmatched))


def _difference_product(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Absolute difference and product, element by element."""
    return (first - second).abs(), first * second
