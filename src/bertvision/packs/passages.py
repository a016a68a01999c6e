"""Cut texts into passages, and rank the passages for a question by BM25, without the encoder."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.tasks.examples import FloatArray, IntArray

LENGTH, OVERLAP = 1200, 200
"""Maximum number of characters in a passage, and of those that it shares with the next one."""

K1, B = 1.2, 0.75
"""Parameters of BM25: k₁, how slowly repeated words saturate, and b, how much short passages are favoured."""

_BREAKS = re.compile(r"[.!?\n]\s+|\n")
_WORDS = re.compile(r"\w+")
_ENDINGS = re.compile(r"(?:ies|es|s|ed|ing|e|y)$")


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages of several texts.

    Attributes:
        document: (passages,) index of the text that each passage is cut from.
        bounds: (passages, 2) index of its first character there, and of the one after its last.
    """

    document: IntArray
    bounds: IntArray

    def __len__(self) -> int:
        return len(self.document)


def cut_passages(texts: Sequence[str], *, length: int = LENGTH, overlap: int = OVERLAP) -> Passages:
    """Cut texts after a sentence or line where one ends within `length` characters, anywhere otherwise.

    Args:
        texts: texts; blank ones have no passages.
        length: maximum number of characters in a passage.
        overlap: maximum number of characters that neighbouring passages share.
    """
    cuts = [_cut(text, length, overlap) for text in texts]
    bounds = np.array([bound for cut in cuts for bound in cut], dtype=np.int64).reshape(-1, 2)
    return Passages(np.repeat(np.arange(len(texts)), [len(cut) for cut in cuts]), bounds)


def rank_passages(question: str, texts: Sequence[str], passages: Passages) -> IntArray:
    """Indices of the passages, (passages,), best first, by BM25 over the stems of the question's words.

    One regular expression finds all words of the question in a single scan of the texts. Passages without any of them
    come last, in their order.
    """
    terms = list(dict.fromkeys(_stem(word) for word in _WORDS.findall(question.lower())))
    if not terms:
        return np.arange(len(passages))
    column = {term: index for index, term in enumerate(terms)}
    longest_first = sorted(terms, key=len, reverse=True)
    search = re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})(?:ies|es|s|ed|ing|e|y)?\b")
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    offsets = np.cumsum(sizes) - sizes  # positions count the characters of all texts, one text after the other
    positions: list[list[int]] = [[] for _ in terms]
    for offset, text in zip(offsets.tolist(), texts, strict=True):
        for match in search.finditer(_lower(text)):
            positions[column[match[1]]].append(offset + match.start())
    bounds = passages.bounds + offsets[passages.document, None]
    counts = np.stack([np.diff(np.searchsorted(found, bounds), axis=1)[:, 0] for found in positions], axis=1)
    return np.argsort(-bm25(counts.astype(np.float64), np.diff(bounds, axis=1)), kind="stable")


def bm25(counts: FloatArray, lengths: IntArray) -> FloatArray:
    """BM25 scores of passages, (passages,).

    Args:
        counts: (passages, words) how often each word of the question occurs.
        lengths: (passages, 1) numbers of characters.
    """
    containing = (counts > 0).sum(axis=0)  # passages with each word
    rarity = np.log1p((len(counts) - containing + 0.5) / (containing + 0.5))
    damping = K1 * (1.0 - B + B * lengths / max(1.0, float(lengths.mean())))
    scores: FloatArray = (rarity * counts * (K1 + 1.0) / (counts + damping)).sum(axis=1)
    return scores


def _lower(text: str) -> str:
    """The text in lower case, with the same length: letters whose lower case is longer stay as they are."""
    lower = text.lower()  # ten times as fast as a case-insensitive search
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _stem(word: str) -> str:
    """The word without its ending, if at least three characters remain."""
    stem = _ENDINGS.sub("", word)
    return stem if len(stem) >= 3 else word


def _cut(text: str, length: int, overlap: int) -> list[tuple[int, int]]:
    """The bounds of a text's passages; blank passages are left out."""
    if not text.strip():
        return []
    breaks = np.array([0, *(match.end() for match in _BREAKS.finditer(text)), len(text)], dtype=np.int64)
    bounds = []
    begin = 0
    while begin < len(text):
        end = min(begin + length, len(text))
        before = int(breaks[np.searchsorted(breaks, end, side="right") - 1])
        end = before if before > begin else end
        bounds.append((begin, end))
        if end == len(text):
            break
        # the next one begins at the first break inside the overlap, or else where this one ends
        after = int(breaks[np.searchsorted(breaks, max(begin + 1, end - overlap))])
        begin = min(after, end)
    return [(first, last) for first, last in bounds if text[first:last].strip()]
