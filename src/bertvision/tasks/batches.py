"""Choose rows: batches of similar lengths, class-balanced samples, nested subsets, held-out examples."""

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import Examples, IntArray, Questions, Texts, number_texts

POOL_BATCHES = 64
"""Batches per pool: shuffled rows are sorted by length within a pool, for little padding in random batches."""

FEWEST_ARTICLES = 200
"""With fewer articles than this, the groups of a split are contexts and not whole articles: 5 % held out would be fewer
than ten articles, too few to fit a threshold, since in half of SQuAD 2.0's articles every question has an answer. The
number does not depend on the share that is held out, so that a smaller held-out part is a subset of a larger one."""


def length_batches(
    lengths: IntArray, size: int, *, seed: int | None = None, tokens: int | None = None, padding: int | None = None
) -> list[IntArray]:
    """Batches of rows of similar lengths, so that padding a batch to its longest row wastes little.

    Args:
        lengths: (rows,) tokens per row.
        size: rows per batch; the last one may be smaller.
        seed: of the shuffle of rows and batches, for training; None puts the longest rows first, for inference.
        tokens: maximum number of tokens in a batch, padding included, so that batches of long rows are smaller; a
            single row may exceed it. None: no limit.
        padding: maximum number of padding tokens in a batch, so that batches of mixed lengths are smaller; without
            effect if `tokens` is None. None: no limit.

    Returns:
        Row numbers of each batch; every row is in exactly one batch.

    Raises:
        BertVisionError: `size` or `tokens` is less than 1.
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
    """Row numbers, drawn with replacement so that every class is drawn equally often on average.

    Args:
        classes: (rows,) class of each row.
        seed: of the random draw.
        rows: number of rows to draw; None draws as many as `classes` has.
    """
    _, number, counts = np.unique(classes, return_inverse=True, return_counts=True)
    weights = 1.0 / (len(counts) * counts[number])
    return np.random.default_rng(seed).choice(len(classes), size=rows or len(classes), p=weights)


def subset_rows(rows: int, fraction: float, seed: int) -> IntArray:
    """Numbers of a random share of `rows` rows, ascending; for one seed, smaller shares are subsets of larger ones.

    Raises:
        BertVisionError: `fraction` is not more than 0 and at most 1.
    """
    if not 0.0 < fraction <= 1.0:
        raise BertVisionError(f"fraction is {fraction:g}, more than 0 and at most 1 is expected.")
    kept = max(1, round(rows * fraction))
    return np.sort(np.random.default_rng(seed).permutation(rows)[:kept])


def held_out_rows(examples: Examples, share: float, seed: int) -> IntArray:
    """Choose whole groups of examples (see `example_groups`) to hold out, so that no text is on both sides.

    Args:
        examples: a training split.
        share: of the examples to hold out, about.
        seed: of the random choice.

    Returns:
        Row numbers, ascending.
    """
    random = np.random.default_rng(seed)
    groups, _ = example_groups(examples)
    if isinstance(examples, Questions):
        numbers, sizes = np.unique(groups, return_counts=True)
        order = random.permutation(len(numbers))
        enough = int(np.searchsorted(np.cumsum(sizes[order]), share * len(examples))) + 1
        return np.flatnonzero(np.isin(groups, numbers[order[:enough]]))
    # groups in the order in which their first rows are drawn: if all texts differ, this draws single rows
    _, drawn, sizes = np.unique(groups[random.permutation(len(groups))], return_index=True, return_counts=True)
    order = np.argsort(drawn)
    wanted = round(share * len(examples))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1 if wanted else 0
    return np.flatnonzero(np.isin(groups, order[:enough]))


def example_groups(examples: Examples) -> tuple[IntArray, list[str]]:
    """Group the examples that must be on the same side of a split.

    A group has all questions about an article, or about a context if there are fewer than `FEWEST_ARTICLES`; of texts,
    equal ones, or equal pairs.

    Returns:
        The group number of each example, (examples,), and the name (title or text) of each group, by number.
    """
    if not isinstance(examples, Questions):
        return _same_texts(examples)
    names, titles = np.unique(np.array(examples.titles), return_inverse=True)
    groups = titles[examples.context_index]
    if len(np.unique(groups)) >= FEWEST_ARTICLES:
        return groups, names.tolist()
    return examples.context_index, examples.contexts


def _same_texts(examples: Texts) -> tuple[IntArray, list[str]]:
    """Group texts or pairs that are equal; the result is as in `example_groups`."""
    texts = examples.texts
    if examples.pairs is not None:
        texts = [f"{one}\0{two}" for one, two in zip(texts, examples.pairs, strict=True)]
    numbers: dict[str, int] = {}
    groups = number_texts(texts, numbers)
    return groups, list(numbers)


def _cut(order: IntArray, lengths: IntArray, size: int, tokens: int | None, padding: int | None) -> list[IntArray]:
    """Cut rows, sorted longest first, into batches; a batch is padded to the length of its first row."""
    if tokens is None:
        return [order[begin : begin + size] for begin in range(0, len(order), size)]
    batches = []
    begin = 0
    while begin < len(order):
        longest = max(1, int(lengths[order[begin]]))
        end = begin + max(1, min(size, tokens // longest))
        if padding is not None:
            wasted = np.cumsum(longest - lengths[order[begin:end]])  # padding tokens of the first 1, 2, … rows
            end = begin + max(1, int(np.searchsorted(wasted, padding, side="right")))
        batches.append(order[begin:end])
        begin = end
    return batches
