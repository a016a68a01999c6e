"""Samples of window lengths for the cost model: SQuAD's, SQuAD's scaled to a mean, or those of a file."""

from pathlib import Path

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.tasks.examples import IntArray

SQUAD_WINDOWS = 131_911
"""Approximate number of windows of the 130,319 questions of SQuAD 2.0's train set, at 384 tokens and stride 128."""

LONGEST = 512
"""Maximum sequence length of most encoders."""

_SQUAD_QUANTILES = (
    *(41, 67, 81, 92, 100, 107, 113, 118, 122, 126, 130, 133, 136, 140, 143, 146, 149, 153, 156, 160, 165),
    *(168, 172, 176, 180, 185, 189, 195, 200, 206, 213, 219, 228, 238, 250, 262, 274, 292, 318, 376, 384),
)
"""Lengths of 18,044 windows of SQuAD 2.0 (384 tokens, stride 128, uncased WordPiece): quantiles in steps of 1/40."""


def squad_lengths() -> IntArray:
    """A sample of SQuAD 2.0's windows: 4,000 lengths in ascending order."""
    places = np.linspace(0, 1, len(_SQUAD_QUANTILES))
    return np.rint(np.interp((np.arange(4000) + 0.5) / 4000, places, _SQUAD_QUANTILES)).astype(np.int64)


def parse_lengths(words: str) -> IntArray:
    """The lengths that `--lengths` asks for: the integers of a file, or SQuAD's scaled to a mean.

    Raises:
        BertVisionError: the mean is less than 1 or more than `LONGEST`; or the file cannot be read, is empty, or
            contains something else than positive integers.
    """
    try:
        mean = float(words)
    except ValueError:
        return _read(Path(words))
    if not 1 <= mean <= LONGEST:
        raise BertVisionError(f"--lengths is {words}, a mean of 1 to {LONGEST} tokens or a file is expected.")
    return stretched(mean)


def stretched(mean: float) -> IntArray:
    """SQuAD's lengths scaled to a mean, and clipped to `LONGEST`; clipping may make the mean a little smaller."""
    lengths = squad_lengths()
    scaled: IntArray = np.clip(np.rint(lengths * (mean / lengths.mean())), 1, LONGEST).astype(np.int64)
    return scaled


def _read(path: Path) -> IntArray:
    try:
        words = path.read_text(encoding="utf-8").split()
        lengths = np.array([int(word) for word in words], dtype=np.int64)
    except (OSError, ValueError) as error:
        raise BertVisionError(
            f"--lengths {path} cannot be read ({error}). A mean, or a file with a whole number of tokens per line, "
            "is expected."
        ) from None
    if not len(lengths) or lengths.min() < 1:
        raise BertVisionError(f"--lengths {path}: one length or more is expected, each at least 1 token.")
    return lengths
