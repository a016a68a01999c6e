"""Two texts as one row of every layer: compared as wholes and, if wanted, token by token."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertvision.encoder.states import HiddenStates
from bertvision.objectives import pool_rows
from bertvision.tasks.task import Pairs, Pool
from bertvision.training.linear_problem import Layout

SHARPNESS = 30.0
"""How much more a token counts the nearer it is: e to the power of this times the cosine."""

PARTS: dict[Pairs, int] = {"together": 1, "apart": 2, "aligned": 6}
"""Parts of a row that mean one thing each, and are as wide as the encoder."""

ALIKE: dict[Pairs, int] = {"together": 0, "apart": 2, "aligned": 4}
"""So many of them, the first ones, tell by their sum how alike two texts are."""


def row_layout(layers: int, pairs: Pairs) -> Layout:
    """The layout of the numbers in a row: layers, parts of each, and which parts measure similarity."""
    return Layout(layers=layers, parts=PARTS[pairs], alike=ALIKE[pairs])


def read_texts(texts: Sequence[HiddenStates], pool: Pool, pairs: Pairs) -> Tensor:
    """One row per example and layer, (examples, layers, parts · width), of one text each, or of two that are compared.

    Args:
        texts: states of one text of every example, or those of the first texts and of the second.
        pool: which row stands for a text.
        pairs: how two texts become one row.
    """
    if pairs == "aligned":
        first, second = texts
        return compare_tokens(first, second, pool)
    return join_texts([pool_rows(text.states.float(), text.mask, pool) for text in texts])


def join_texts(rows: Sequence[Tensor]) -> Tensor:
    """The rows of one text each, or of the first texts and the second as one; see `compare_rows`."""
    first, *second = rows
    return compare_rows(first, *second) if second else first


def compare_rows(first: Tensor, second: Tensor) -> Tensor:
    """Two texts' rows as one, (…, 2 · width): how far they are apart, and how far they agree, number by number.

    Every layer's row has length 1 before that, so that what the texts share is not lost among how long their rows are.
    The sum of each part of a layer's row then says by itself how alike the texts are: the second is a cosine.
    """
    return torch.cat(_differ(*(nn.functional.normalize(rows, dim=-1) for rows in (first, second))), dim=-1)


def compare_tokens(first: HiddenStates, second: HiddenStates, pool: Pool) -> Tensor:
    """Two texts as one row of every layer, (pairs, layers, 6 · width): as wholes, then token by token.

    Every token, as a direction, is compared with what is nearest to it in the other text, in the same layer: how far
    the two are apart, and how far they agree, on average over the tokens of a text, then over both texts. The last two
    parts tell what the other text lacks: the mean direction of the tokens of the first text, and of the second, each
    as long as 1 less how far it agrees. So a word without a counterpart shows, and which one it is; means over whole
    texts hide it.

    What is nearest is a mean over the other text's tokens that hardly counts any but the nearest ones, see `SHARPNESS`:
    which of two comes first would depend on rounding, where both are as near.
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
    """How far tokens are from what is nearest, how far they agree with it, and what is left: means, (pairs, width)."""
    query, keys = tokens[:, None], others[:, None]  # of one attention head, since ONNX and fast kernels want four axes
    attend = nn.functional.scaled_dot_product_attention
    nearest = attend(query, keys, keys, attn_mask=others_mask[:, None, None], scale=SHARPNESS)[:, 0]
    apart, agree = _differ(tokens, nearest)
    lonely = tokens * (1.0 - agree.sum(dim=-1, keepdim=True))
    return tuple(pool_rows(part, mask, "mean") for part in (apart, agree, lonely))


def _differ(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """How far two are apart, and how far they agree, number by number."""
    return (one - two).abs(), one * two
