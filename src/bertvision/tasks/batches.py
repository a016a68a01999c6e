"""Which rows go together: batches of like lengths, classes of equal weight, nested subsets."""

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import Examples, IntArray, Questions, Texts, number_texts

POOL_BATCHES = 64
"""Shuffled rows are sorted by length within pools of this many batches: little padding, still random."""


FEWEST_ARTICLES = 200
"""With fewer articles than this, 5 % of them would be fewer than ten, and contexts are held out instead: in half of the
articles of SQuAD 2.0 every question has an answer, so that a few of them say little of thresholds. It does not depend
on the share, so that a smaller one lies within a larger one."""


def length_batches(
    lengths: IntArray, size: int, *, seed: int | None = None, tokens: int | None = None, padding: int | None = None
) -> list[IntArray]:
    """Batches of rows with like lengths, so that padding a batch to its longest row wastes little.

    Args:
        lengths: (rows,) tokens per row.
        size: rows per batch; the last one may be smaller.
        seed: shuffles rows and batches, for training; None puts the longest first, for inference.
        tokens: most tokens in a batch, padding included; long rows then come in smaller batches.
        padding: most tokens of padding in a batch; few rows of mixed lengths then come in smaller batches. Counts only
            where `tokens` does.

    Returns:
        Row numbers; every row stands in exactly one batch.
    """
    if size < 1 or (tokens is not None and tokens < 1):
        raise BertVisionError(f"a batch of {size} rows and {tokens} tokens was asked for; both must be at least 1.")
    if seed is None:
        return _cut(np.argsort(-lengths, kind="stable"), lengths, size, tokens, padding)
    random = np.random.default_rng(seed)
    order = random.permutation(len(lengths))
    batches = []
    for begin in range(0, len(order), size * POOL_BATCHES):
        pool = order[begin : begin + size * POOL_BATCHES]
        batches += _cut(pool[np.argsort(-lengths[pool], kind="stable")], lengths, size, tokens, padding)
    return [batches[number] for number in random.permutation(len(batches))]


def balanced_rows(classes: IntArray, seed: int, rows: int | None = None) -> IntArray:
    """Rows drawn with replacement so that every class is drawn equally often on average.

    Args:
        classes: (rows,) class of each row.
        seed: seed of the random draw.
        rows: how many to draw; None draws as many as there are.
    """
    _, number, counts = np.unique(classes, return_inverse=True, return_counts=True)
    weights = 1.0 / (len(counts) * counts[number])
    return np.random.default_rng(seed).choice(len(classes), size=rows or len(classes), p=weights)


def subset_rows(rows: int, fraction: float, seed: int) -> IntArray:
    """A random share of the rows, in ascending order; smaller shares of the same seed lie within larger ones."""
    if not 0.0 < fraction <= 1.0:
        raise BertVisionError(f"fraction is {fraction:g}, more than 0 and at most 1 is expected.")
    kept = max(1, round(rows * fraction))
    return np.sort(np.random.default_rng(seed).permutation(rows)[:kept])


def held_out_rows(examples: Examples, share: float, seed: int) -> IntArray:
    """Choose rows to hold out so that no text is on both sides; see `example_groups`.

    Args:
        examples: a training split.
        share: about how much of it.
        seed: seed of the random choice.
    """
    random = np.random.default_rng(seed)
    groups, _ = example_groups(examples)
    if isinstance(examples, Questions):
        names, sizes = np.unique(groups, return_counts=True)
        order = random.permutation(len(names))
        enough = int(np.searchsorted(np.cumsum(sizes[order]), share * len(examples))) + 1
        return np.flatnonzero(np.isin(groups, names[order[:enough]]))
    # groups in the order in which their rows are drawn: where all texts differ, rows are drawn one by one
    _, drawn, sizes = np.unique(groups[random.permutation(len(groups))], return_index=True, return_counts=True)
    order = np.argsort(drawn)
    wanted = round(share * len(examples))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1 if wanted else 0
    return np.flatnonzero(np.isin(groups, order[:enough]))


def example_groups(examples: Examples) -> tuple[IntArray, list[str]]:
    """Group the examples that must stay on one side of a split.

    Questions about one article are one group, or questions about one context where there are few articles; texts, or
    pairs of texts, that are equal are one group.

    Returns:
        The number of each example's group, (examples,), and what the groups are called, by number.
    """
    if not isinstance(examples, Questions):
        return _same_texts(examples)
    names, titles = np.unique(np.array(examples.titles), return_inverse=True)
    groups = titles[examples.context_index]
    if len(np.unique(groups)) >= FEWEST_ARTICLES:
        return groups, names.tolist()
    return examples.context_index, examples.contexts


def _same_texts(examples: Texts) -> tuple[IntArray, list[str]]:
    """The number of every text, or pair of texts, equal ones the same; and the different ones, by number."""
    texts = examples.texts
    if examples.pairs is not None:
        texts = [f"{one}\0{two}" for one, two in zip(texts, examples.pairs, strict=True)]
    numbers: dict[str, int] = {}
    groups = number_texts(texts, numbers)
    return groups, list(numbers)


def _cut(order: IntArray, lengths: IntArray, size: int, tokens: int | None, padding: int | None) -> list[IntArray]:
    """Cut rows, longest first, into batches; the first row of a batch is the one it is padded to."""
    if tokens is None:
        return [order[begin : begin + size] for begin in range(0, len(order), size)]
    batches = []
    begin = 0
    while begin < len(order):
        longest = max(1, int(lengths[order[begin]]))
        end = begin + max(1, min(size, tokens // longest))
        if padding is not None:
            added = np.cumsum(longest - lengths[order[begin:end]])  # padding with each further row
            end = begin + max(1, int(np.searchsorted(added, padding, side="right")))
        batches.append(order[begin:end])
        begin = end
    return batches
