"""Texts → passages, and a cheap look for those that may answer a question: BM25 over the question's words alone."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertvision.tasks.examples import FloatArray, IntArray

LENGTH, OVERLAP = 1200, 200
"""Characters of a passage at most, and how many of them the next one may begin with again."""

FREQUENT, LENGTHS = 1.2, 0.75
"""The two numbers of BM25: how much repeats count, and how much short passages are favoured."""

_BREAKS = re.compile(r"[.!?\n]\s+|\n")
_WORDS = re.compile(r"\w+")
_ENDINGS = re.compile(r"(?:ies|es|s|ed|ing|e|y)$")


@dataclass(frozen=True, slots=True)
class Passages:
    """Pieces of many texts.

    Attributes:
        document: (passages,) number of the text that each is cut from.
        bounds: (passages, 2) its first character there, and the one after its last.
    """

    document: IntArray
    bounds: IntArray

    def __len__(self) -> int:
        return len(self.document)


def cut_passages(texts: Sequence[str], *, length: int = LENGTH, overlap: int = OVERLAP) -> Passages:
    """Cut texts between sentences or lines where they can be, and anywhere where they cannot."""
    cuts = [_cut(text, length, overlap) for text in texts]
    bounds = np.array([bound for cut in cuts for bound in cut], dtype=np.int64).reshape(-1, 2)
    return Passages(np.repeat(np.arange(len(texts)), [len(cut) for cut in cuts]), bounds)


def rank_passages(question: str, texts: Sequence[str], passages: Passages) -> IntArray:
    """Numbers of the passages, the best first: by BM25 over the question's words, without their endings.

    Only words of the question are looked for, by one search for all of them, so that a text costs no more than reading.
    Passages without any of them come last, in their order.
    """
    terms = list(dict.fromkeys(_stem(word) for word in _WORDS.findall(question.lower())))
    if not terms:
        return np.arange(len(passages))
    number = {term: column for column, term in enumerate(terms)}
    longest_first = sorted(terms, key=len, reverse=True)
    search = re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})(?:ies|es|s|ed|ing|e|y)?\b")
    sizes = np.array([len(text) for text in texts], dtype=np.int64)
    base = np.cumsum(sizes) - sizes  # characters are numbered through all texts
    places: list[list[int]] = [[] for _ in terms]
    for first, text in zip(base.tolist(), texts, strict=True):
        for match in search.finditer(_lower(text)):
            places[number[match[1]]].append(first + match.start())
    bounds = passages.bounds + base[passages.document, None]
    counts = np.stack([np.diff(np.searchsorted(found, bounds), axis=1)[:, 0] for found in places], axis=1)
    return np.argsort(-bm25(counts.astype(np.float64), np.diff(bounds, axis=1)), kind="stable")


def bm25(counts: FloatArray, lengths: IntArray) -> FloatArray:
    """Scores, (passages,), from counts, (passages, words), and lengths, (passages, 1)."""
    there = (counts > 0).sum(axis=0)
    rarity = np.log1p((len(counts) - there + 0.5) / (there + 0.5))
    damping = FREQUENT * (1.0 - LENGTHS + LENGTHS * lengths / max(1.0, float(lengths.mean())))
    scores: FloatArray = (rarity * counts * (FREQUENT + 1.0) / (counts + damping)).sum(axis=1)
    return scores


def _lower(text: str) -> str:
    """A text in small letters, as many characters as before: a few letters have no small one of the same length."""
    small = text.lower()  # ten times as fast as a search that looks at both cases
    return small if len(small) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _stem(word: str) -> str:
    """A word without its ending, where enough of it is left."""
    stem = _ENDINGS.sub("", word)
    return stem if len(stem) >= 3 else word


def _cut(text: str, length: int, overlap: int) -> list[tuple[int, int]]:
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
        # the next one begins at a break inside the overlap, or behind this one
        after = int(breaks[np.searchsorted(breaks, max(begin + 1, end - overlap))])
        begin = min(after, end)
    return [(first, last) for first, last in bounds if text[first:last].strip()]
