"""Folds: every training example in one of K parts, the same in every run over the same data."""

import hashlib

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.batches import example_groups
from bertvision.tasks.examples import Examples, IntArray


def fold_numbers(examples: Examples, folds: int) -> IntArray:
    """The fold of every example, (examples,): about equally many in each.

    What belongs together is in one fold: questions of one article, or of one context where there are few articles;
    texts with the same words. Which fold that is depends on the texts of the split alone.

    Args:
        examples: a whole training split.
        folds: how many.

    Raises:
        BertVisionError: there are too few examples.
    """
    groups, names = example_groups(examples)
    # in the order of hashes, so that neighbours in a file are not neighbours here
    hashes = np.array([_hash(name) for name in names])[groups]
    _, group, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    middle = (np.cumsum(sizes) - sizes / 2) / len(hashes)  # of each group among all examples, 0 to 1
    numbers: IntArray = (middle * folds).astype(np.int64)[group]
    if len(np.unique(numbers)) < folds:
        raise BertVisionError(
            f"{len(sizes)} different texts or articles are too few for {folds} folds. Use a smaller --cross-fit."
        )
    return numbers


def folds_digest(examples: Examples, numbers: IntArray) -> str:
    """A hash of which example is in which fold, to tell other data and other folds."""
    digest = hashlib.sha256()
    for key, number in zip(examples.ids, numbers.tolist(), strict=True):
        digest.update(f"{key}\0{number}\0".encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]


def _hash(text: str) -> int:
    """A number that is the same on every machine; JSON may hold half a character, which is text here, too."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:7], "big")
