"""The examples of one split, column by column, so that whole files are handled at once."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertvision.tasks.task import TaskKind

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

T = TypeVar("T")


class Answer(NamedTuple):
    """A piece of the context: its text and the character it starts at."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The position after its last character."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions about contexts; every context stands here once, however many questions it has.

    Attributes:
        ids: (questions,) unique.
        questions: (questions,).
        context_index: (questions,) which of `contexts` each question is about.
        answers: (questions,) gold answers; none means that the context has no answer.
        contexts: (contexts,).
        titles: (contexts,) the article each context comes from.
    """

    ids: list[str]
    questions: list[str]
    context_index: IntArray
    answers: list[tuple[Answer, ...]]
    contexts: list[str]
    titles: list[str]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def answerable(self) -> NDArray[np.bool_]:
        """Which questions have an answer, (questions,)."""
        return np.fromiter((bool(answers) for answers in self.answers), dtype=np.bool_, count=len(self))

    def golds(self) -> dict[str, list[str]]:
        """Gold answer texts by question id, as the scorers take them."""
        return {key: [answer.text for answer in answers] for key, answers in zip(self.ids, self.answers, strict=True)}

    def select(self, rows: IntArray) -> Self:
        """The questions at `rows`, in that order; contexts are kept as they are."""
        return type(self)(
            ids=_pick(self.ids, rows),
            questions=_pick(self.questions, rows),
            context_index=self.context_index[rows],
            answers=_pick(self.answers, rows),
            contexts=self.contexts,
            titles=self.titles,
        )


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts, or pairs of texts, each with a label (class number), tags (any number of labels), or a score.

    Attributes:
        ids: (rows,) unique.
        texts: (rows,).
        pairs: (rows,) the second texts, or None where the task has single texts.
        targets: (rows,) class numbers (int64) or scores (float64); or (rows, labels) tags, 1 where a text has
            the label (int64).
    """

    ids: list[str]
    texts: list[str]
    pairs: list[str] | None
    targets: IntArray | FloatArray

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: IntArray) -> Self:
        """The rows at `rows`, in that order."""
        return type(self)(
            ids=_pick(self.ids, rows),
            texts=_pick(self.texts, rows),
            pairs=None if self.pairs is None else _pick(self.pairs, rows),
            targets=self.targets[rows],
        )

    def sides(self) -> tuple[Self, ...]:
        """The first and the second texts of pairs, each as single texts; of single texts, only these."""
        first = replace(self, pairs=None)
        return (first,) if self.pairs is None else (first, replace(first, texts=self.pairs))


Examples = Questions | Texts


def as_questions(examples: Examples) -> Questions:
    """The questions of a task whose answers are spans: no other task has a caller of this."""
    if not isinstance(examples, Questions):
        raise TypeError("spans come from questions")
    return examples


Target = float | tuple[int, ...]
"""What is right for a text: a class number or a score; of tags, 0 or 1 for every label."""


def target_array(kind: TaskKind, values: Sequence[Target]) -> IntArray | FloatArray:
    """Class numbers (int64) or scores (float64) as an array, (rows,); tags as 0 and 1 (int64), (rows, labels)."""
    return np.array(values, dtype=np.float64) if kind == "scores" else np.array(values, dtype=np.int64)


def gold_targets(examples: Examples) -> IntArray | FloatArray:
    """The gold class numbers, tags or scores; for questions, 1 where there is an answer and 0 elsewhere."""
    return examples.answerable.astype(np.int64) if isinstance(examples, Questions) else examples.targets


def number_texts(texts: Sequence[str], numbers: dict[str, int]) -> IntArray:
    """The number of every text, equal ones the same, (texts,); new texts get the next numbers in `numbers`."""
    return np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), np.int64, count=len(texts))


def _pick(values: Sequence[T], rows: IntArray) -> list[T]:
    return [values[row] for row in rows.tolist()]
