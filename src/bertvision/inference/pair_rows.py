"""Two texts as one row per layer: their pooled rows compared and, if `aligned`, also their tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertvision.encoder.states import HiddenStates
from bertvision.objectives import pool_rows
from bertvision.tasks.task import Pairs, Pool
from bertvision.training.linear_problem import Layout

SHARPNESS = 30.0
"""Inverse temperature of the alignment of tokens, a softmax over this times their cosines."""

PARTS: dict[Pairs, int] = {"together": 1, "apart": 2, "aligned": 6}
"""Number of parts of a row; each is as wide as the encoder and has one meaning."""

SIMILARITY_PARTS: dict[Pairs, int] = {"together": 0, "apart": 2, "aligned": 4}
"""Number of the first parts whose sums over their numbers measure how similar two texts are."""


def row_layout(layers: int, pairs: Pairs) -> Layout:
    """The layout of the numbers in a row: layers, parts of each, and which parts measure similarity."""
    return Layout(layers=layers, parts=PARTS[pairs], similarity_parts=SIMILARITY_PARTS[pairs])


def read_texts(texts: Sequence[HiddenStates], pool: Pool, pairs: Pairs) -> Tensor:
    """One row per example and layer, (examples, layers, parts · width), from one text each or from two.

    Args:
        texts: states of one text per example; or two items, those of first and those of second texts.
        pool: how the tokens of a text become one row.
        pairs: how two texts become one row.
    """
    if pairs == "aligned":
        first, second = texts
        return compare_tokens(first, second, pool)
    return join_texts([pool_rows(text.states.float(), text.mask, pool) for text in texts])


def join_texts(rows: Sequence[Tensor]) -> Tensor:
    """The rows as they are if texts are single; those of first and second texts joined by `compare_rows`."""
    first, *second = rows
    return compare_rows(first, *second) if second else first


def compare_rows(first: Tensor, second: Tensor) -> Tensor:
    """The rows of two texts as one, (…, 2 · width): absolute differences and elementwise products.

    Both rows are first scaled to length 1, since differences in length would hide what the texts have in common. So the
    sum of either part measures similarity by itself: that of the products is the cosine.
    """
    return torch.cat(_compare(*(nn.functional.normalize(rows, dim=-1) for rows in (first, second))), dim=-1)


def compare_tokens(first: HiddenStates, second: HiddenStates, pool: Pool) -> Tensor:
    """Two texts as one row per layer, (pairs, layers, 6 · width): four measures of similarity, then what is unmatched.

    The first two parts are those of `compare_rows`, from pooled rows. For the others, every token, scaled to length 1,
    is compared with its nearest match in the same layer of the other text. Parts three and four are the absolute
    differences and the products of token and match, averaged over the tokens of each text and over both texts. Parts
    five and six are means over the tokens of the first and of the second text, each token times 1 less the cosine with
    its match: they show that a word has no counterpart, and which word, which means over whole texts hide.

    The match is a softmax-weighted mean of the other text's tokens that hardly counts any but the nearest, see
    `SHARPNESS`: if it were the nearest token alone, rounding would choose between tokens that are equally near.
    """
    layers = zip(first.states.unbind(dim=1), second.states.unbind(dim=1), strict=True)
    masks = first.mask, second.mask
    # one layer after the other, since all at once would take as many times the memory
    return torch.stack([_compare_layer(one.float(), two.float(), masks, pool) for one, two in layers], dim=1)


def _compare_layer(first: Tensor, second: Tensor, masks: tuple[Tensor, Tensor], pool: Pool) -> Tensor:
    """`compare_tokens` for one layer, (pairs, tokens, width) each → (pairs, 6 · width)."""
    pooled = compare_rows(*(pool_rows(text, mask, pool) for text, mask in zip((first, second), masks, strict=True)))
    one, two = (nn.functional.normalize(text, dim=-1) for text in (first, second))
    *first_parts, first_unmatched = _compare_nearest(one, two, *masks)
    *second_parts, second_unmatched = _compare_nearest(two, one, *masks[::-1])
    means = [(of_first + of_second) / 2 for of_first, of_second in zip(first_parts, second_parts, strict=True)]
    return torch.cat([pooled, *means, first_unmatched, second_unmatched], dim=-1)


def _compare_nearest(tokens: Tensor, others: Tensor, mask: Tensor, others_mask: Tensor) -> tuple[Tensor, ...]:
    """Difference, product and unmatched share of tokens and their matches in the other text: means, (pairs, width)."""
    query, keys = tokens[:, None], others[:, None]  # of one attention head, since ONNX and fast kernels want four axes
    attend = nn.functional.scaled_dot_product_attention
    nearest = attend(query, keys, keys, attn_mask=others_mask[:, None, None], scale=SHARPNESS)[:, 0]
    difference, product = _compare(tokens, nearest)
    unmatched = tokens * (1.0 - product.sum(dim=-1, keepdim=True))
    return tuple(pool_rows(part, mask, "mean") for part in (difference, product, unmatched))


def _compare(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """Absolute differences and products, elementwise."""
    return (one - two).abs(), one * two
