"""Deterministic K-fold splits of the training examples, the same in every run on the same data."""

import hashlib

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.batches import example_groups
from bertvision.tasks.examples import Examples, IntArray


def fold_numbers(examples: Examples, folds: int) -> IntArray:
    """Fold number of every example, 0 to `folds` - 1, (examples,); the folds are about equally large.

    The examples of a group (see `example_groups`) are in one fold. The folds depend on the texts of the split and on
    nothing else, such as a seed or the order of the file.

    Args:
        examples: a whole training split.
        folds: number of folds.

    Raises:
        BertVisionError: a fold would be empty, since there are too few groups or one is too large.
    """
    groups, names = example_groups(examples)
    # groups are ordered by hash, which works as a shuffle without a seed
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
    """Short hash of every example's id and fold, to detect that data or folds have changed."""
    digest = hashlib.sha256()
    for key, number in zip(examples.ids, numbers.tolist(), strict=True):
        digest.update(f"{key}\0{number}\0".encode(errors="surrogatepass"))
    return digest.hexdigest()[:16]


def _hash(text: str) -> int:
    """First 56 bits of the SHA-256 of a text; unpaired surrogates, which JSON can hold, are hashed, too."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:7], "big")
