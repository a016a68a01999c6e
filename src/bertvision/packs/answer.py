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
"""Passages that the encoder reads, unless another number is asked for."""

TOGETHER = 256
"""Passages that are in memory at a time, as token windows and scores."""


@dataclass(frozen=True, slots=True)
class Document:
    """A text, and the name of its file."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAnswer:
    """An answer and where it stands; text, places and file are None for "no answer".

    Attributes:
        text: the answer.
        score: its probability.
        start: its first character in the file's text.
        end: the character after its last.
        file: name of the document.
    """

    text: str | None
    score: float
    start: int | None
    end: int | None
    file: str | None

    def as_json(self) -> dict[str, Any]:
        """What is printed for machines."""
        return {"answer": self.text, "score": self.score, "start": self.start, "end": self.end, "file": self.file}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswer:
    """What was found.

    Attributes:
        best: the answer, or none.
        alternatives: the next most probable ones.
        passages: how many there are.
        read: how many of them the encoder read.
    """

    best: FoundAnswer
    alternatives: list[FoundAnswer]
    passages: int
    read: int

    def as_json(self) -> dict[str, Any]:
        """What is printed for machines."""
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

    They are cut into passages; those that share rare words with the question are read by the encoder, each by itself.
    There is no answer if the pack's threshold says so of all of them.

    Args:
        answerer: a pack.
        question: the question.
        documents: texts that may hold the answer.
        top: how many answers to give, the best included.
        read: how many passages the encoder reads at most.
        tell: function that gets how many passages were read, and how many there are.

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
    said = SpanAnswers([], [], [])
    for first in range(0, len(pieces), TOGETHER):
        some = pieces[first : first + TOGETHER]
        pairs = [(question, document.text[begin:end]) for document, begin, end in some]
        more = answerer.answers(pairs, best=top, limit=FITTED_LIMIT)
        said = SpanAnswers(said.spans + more.spans, said.null + more.null, said.silent + more.silent)
        if tell is not None:
            tell(first + len(some), len(pieces))
    found: dict[tuple[str, int, int], tuple[bool, FoundAnswer]] = {}
    for row, (document, begin, _) in enumerate(pieces):
        for span in said.spans[row]:
            start, end = begin + span.start, begin + span.end
            key = document.name, start, end
            one = FoundAnswer(text=document.text[start:end], score=span.score, start=start, end=end, file=document.name)
            if key not in found or _rank((said.silent[row], one)) < _rank(found[key]):  # passages overlap
                found[key] = said.silent[row], one
    ranked = sorted(found.values(), key=_rank)
    answers = [one for _, one in ranked[:top]]
    if not ranked or ranked[0][0]:
        nothing = FoundAnswer(text=None, score=float(np.min(said.null)), start=None, end=None, file=None)
        answers = [nothing, *answers[: top - 1]]
    return QuestionAnswer(best=answers[0], alternatives=answers[1:], passages=len(passages), read=len(chosen))


def _rank(one: tuple[bool, FoundAnswer]) -> tuple[bool, float]:
    """Answers of passages that have one come first, then the more probable ones."""
    return one[0], -one[1].score


def read_documents(place: Path) -> tuple[list[Document], list[str]]:
    """The text of a file, or of every file below a folder, and the files there that hold none.

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
