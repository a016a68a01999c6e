"""The examples of a split, stored as columns."""

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
    """An answer span: its text, and the position of its first character in the context."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The position after its last character."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions about contexts; a context of several questions is stored once.

    Attributes:
        ids: (questions,) unique ids.
        questions: (questions,) texts of the questions.
        context_index: (questions,) index into `contexts` of each question's context.
        answers: (questions,) gold answers; an empty tuple if the context does not answer the question.
        contexts: (contexts,) different texts.
        titles: (contexts,) title of the article that each context comes from.
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
        """True for questions with an answer, (questions,)."""
        return np.fromiter((bool(answers) for answers in self.answers), dtype=np.bool_, count=len(self))

    def golds(self) -> dict[str, list[str]]:
        """Gold answer texts by question id, as the SQuAD metrics take them."""
        return {key: [answer.text for answer in answers] for key, answers in zip(self.ids, self.answers, strict=True)}

    def select(self, rows: IntArray) -> Self:
        """The questions at `rows`, in that order; all contexts are kept, so that `context_index` stays valid."""
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
    """Texts or pairs of texts, each with a class number, tags (any number of labels) or a score.

    Attributes:
        ids: (rows,) unique ids.
        texts: (rows,) the texts, or the first texts of pairs.
        pairs: (rows,) the second texts of pairs; None if the task has single texts.
        targets: (rows,) class numbers (int64) or scores (float64); for tags (rows, labels), 1 if a text has the label,
            else 0 (int64).
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
        """The first texts and the second texts of pairs, each as single texts; `(self,)` for single texts."""
        first = replace(self, pairs=None)
        return (first,) if self.pairs is None else (first, replace(first, texts=self.pairs))


Examples = Questions | Texts


def as_questions(examples: Examples) -> Questions:
    """Narrow the type to `Questions`, where the kind of the task is known to be spans.

    Raises:
        TypeError: they are texts, which is a bug of the caller.
    """
    if not isinstance(examples, Questions):
        raise TypeError("spans come from questions")
    return examples


Target = float | tuple[int, ...]
"""Target of a text: a class number or a score; for tags, 0 or 1 for every label."""


def target_array(kind: TaskKind, values: Sequence[Target]) -> IntArray | FloatArray:
    """Targets as an array: class numbers (int64) or scores (float64), (rows,); tags (int64), (rows, labels)."""
    return np.array(values, dtype=np.float64) if kind == "scores" else np.array(values, dtype=np.int64)


def gold_targets(examples: Examples) -> IntArray | FloatArray:
    """Targets of texts; for questions, 1 if there is an answer and 0 if not, (questions,)."""
    return examples.answerable.astype(np.int64) if isinstance(examples, Questions) else examples.targets


def number_texts(texts: Sequence[str], numbers: dict[str, int]) -> IntArray:
    """Number of every text, (texts,), where equal texts have the same one; new texts are added to `numbers`."""
    return np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), np.int64, count=len(texts))


def _pick(values: Sequence[T], rows: IntArray) -> list[T]:
    return [values[row] for row in rows.tolist()]
