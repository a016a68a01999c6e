"""Two texts as one row of every layer: compared as wholes and, if wanted, token by token."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertvision.encoder.states import HiddenStates
from bertvision.objectives import pool_rows
from bertvision.tasks.task import Pairs, Pool

PARTS: dict[Pairs, int] = {"together": 1, "apart": 2, "aligned": 6}
"""Parts of a row that mean one thing each, and are as wide as the encoder."""


def read_texts(texts: Sequence[HiddenStates], pool: Pool, pairs: Pairs) -> Tensor:
    """One row per example and layer, (examples, layers, parts · width), of examples of one text, or of two apart."""
    if pairs == "aligned":
        first, second = texts
        return compare_tokens(first, second, pool)
    return join_texts([pool_rows(text.states, text.mask, pool) for text in texts])


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

    Every token, as a direction, is compared with the one of the other text that is nearest to it in the same layer:
    how far these two are apart, and how far they agree, on average over the tokens of a text, then over both texts. The
    sum of the latter is the mean of BERTScore's precision and recall. The last two parts tell what the other text
    lacks: the mean direction of the tokens of the first text, and of the second, each as long as 1 less its cosine to
    the nearest. So a word without a counterpart shows, and which one it is; means over whole texts hide it.
    """
    wholes = compare_rows(*(pool_rows(text.states, text.mask, pool) for text in (first, second)))
    one, two = (nn.functional.normalize(text.states, dim=-1) for text in (first, second))
    alike = one @ two.mT  # (pairs, layers, first tokens, second tokens)
    mine = _compare_nearest(one, two, alike, mask=first.mask, others_mask=second.mask)
    others = _compare_nearest(two, one, alike.mT, mask=second.mask, others_mask=first.mask)
    both = [(here + there) / 2 for here, there in zip(mine[:2], others[:2], strict=True)]
    return torch.cat([wholes, *both, mine[2], others[2]], dim=-1)


def _compare_nearest(
    tokens: Tensor, others: Tensor, alike: Tensor, *, mask: Tensor, others_mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """How far tokens are from their nearest, how far they agree, and what has none: means, (pairs, layers, width)."""
    cosines, nearest = alike.masked_fill(~others_mask[:, None, None], -2.0).max(dim=-1)  # (pairs, layers, tokens)
    partners = others.gather(2, nearest[..., None].expand(-1, -1, -1, others.shape[-1]))
    lonely = tokens * (1.0 - cosines)[..., None]
    apart, agree, lacking = (pool_rows(part, mask, "mean") for part in (*_differ(tokens, partners), lonely))
    return apart, agree, lacking


def _differ(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """How far two are apart, and how far they agree, number by number."""
    return (one - two).abs(), one * two
