"""answer_question: a question and documents → the best answer with its place, or none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bertvision.errors import BertVisionError, DataError
from bertvision.packs.passages import cut_passages, rank_passages
from bertvision.packs.question_answerer import QuestionAnswerer
from bertvision.packs.spans import FITTED_LIMIT, SpanAnswers
from bertvision.tasks.files import read_text

READ = 32
"""Default maximum number of passages that the encoder reads."""

TOGETHER = 256
"""Passages per chunk: only the token windows and scores of one chunk are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and the name of its file."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAnswer:
    """An answer with its position in a document; text, start, end and file are None for "no answer".

    Attributes:
        text: the answer.
        score: its probability; for "no answer" the lowest probability of it in any of the passages.
        start: index of its first character in the document's text.
        end: index of the character after its last one.
        file: name of the document.
    """

    text: str | None
    score: float
    start: int | None
    end: int | None
    file: str | None

    def as_json(self) -> dict[str, Any]:
        """A dictionary for JSON, with the answer under "answer"."""
        return {"answer": self.text, "score": self.score, "start": self.start, "end": self.end, "file": self.file}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswer:
    """Result of `answer_question`.

    Attributes:
        best: the best answer, or "no answer".
        alternatives: the next most probable ones.
        passages: number of passages in all documents.
        read: number of passages that the encoder read.
    """

    best: FoundAnswer
    alternatives: list[FoundAnswer]
    passages: int
    read: int

    def as_json(self) -> dict[str, Any]:
        """The output of `bertvision answer --json`."""
        return self.best.as_json() | {"alternatives": [one.as_json() for one in self.alternatives]}


def answer_question(  # noqa: PLR0913 - what it depends on, by keyword
    answerer: QuestionAnswerer,
    question: str,
    documents: Sequence[Document],
    *,
    top: int = 3,
    read: int = READ,
    tell: Callable[[int, int], None] | None = None,
) -> QuestionAnswer:
    """Find the answer to a question in documents.

    The documents are cut into passages, which are ranked for the question by BM25; the encoder reads the best ones,
    each separately. The result is "no answer" if the pack's threshold says so for every passage read.

    Args:
        answerer: a pack with its encoder.
        question: the question.
        documents: texts that may hold the answer.
        top: how many answers to give, the best included.
        read: how many passages the encoder reads at most.
        tell: progress callback: gets the numbers of passages read so far and to be read.

    Raises:
        BertVisionError: the question is empty, there is no text, or a number is too small.
    """
    for option, number in (("--top", top), ("--passages", read)):
        if number < 1:
            raise BertVisionError(f"{option} is {number}, at least 1 is expected.")
    texts = [document.text for document in documents]
    passages = cut_passages(texts)
    if not len(passages):
        raise BertVisionError("there is no text to look for an answer in.")
    chosen = rank_passages(question, texts, passages)[:read].tolist()
    pieces = [(documents[passages.document[row]], *passages.bounds[row].tolist()) for row in chosen]
    by_piece = SpanAnswers([], [], [])
    for first in range(0, len(pieces), TOGETHER):
        chunk = pieces[first : first + TOGETHER]
        pairs = [(question, document.text[begin:end]) for document, begin, end in chunk]
        more = answerer.answers(pairs, best=top, limit=FITTED_LIMIT)
        by_piece = SpanAnswers(by_piece.spans + more.spans, by_piece.null + more.null, by_piece.silent + more.silent)
        if tell is not None:
            tell(first + len(chunk), len(pieces))
    candidates: dict[tuple[Document, int, int], tuple[bool, FoundAnswer]] = {}
    for row, (document, begin, _) in enumerate(pieces):
        for span in by_piece.spans[row]:
            start, end = begin + span.start, begin + span.end
            key = document, start, end
            text = document.text[start:end]
            answer = FoundAnswer(text=text, score=span.score, start=start, end=end, file=document.name)
            candidate = by_piece.silent[row], answer
            if key not in candidates or _rank(candidate) < _rank(candidates[key]):  # passages overlap
                candidates[key] = candidate
    ranked = sorted(candidates.values(), key=_rank)
    answers = [answer for _, answer in ranked[:top]]
    if not ranked or ranked[0][0]:
        no_answer = FoundAnswer(text=None, score=float(np.min(by_piece.null)), start=None, end=None, file=None)
        answers = [no_answer, *answers[: top - 1]]
    return QuestionAnswer(best=answers[0], alternatives=answers[1:], passages=len(passages), read=len(chosen))


def _rank(candidate: tuple[bool, FoundAnswer]) -> tuple[bool, float]:
    """Sort key, best first: answers from passages that have an answer by the threshold, then by probability.

    Args:
        candidate: whether its passage has no answer by the threshold, and the answer.
    """
    silent, answer = candidate
    return silent, -answer.score


def read_documents(place: Path) -> tuple[list[Document], list[str]]:
    """Read a text file, or every file below a folder except hidden ones.

    Returns:
        The documents, and the paths of files that were skipped since they cannot be read as UTF-8.

    Raises:
        DataError: the file cannot be read, or no file of the folder can.
    """
    if not place.is_dir():
        return [Document(str(place), read_text(place))], []
    documents, skipped = [], []
    for path in sorted(place.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(place).parts)
        if hidden or not path.is_file():
            continue
        try:
            documents.append(Document(str(path), read_text(path)))
        except DataError:
            skipped.append(str(path))
    if not documents:
        raise DataError(f"{place} holds no file with text. A file or a folder of text files is expected.")
    return documents, skipped
