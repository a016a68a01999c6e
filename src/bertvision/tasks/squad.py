"""SQuAD 1.1 and 2.0, and SQuAD 2.0 as binary classification: has the question an answer?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bertvision.errors import DataError
from bertvision.tasks.examples import Answer, Questions
from bertvision.tasks.files import BadRow, check_unicode, read_json
from bertvision.tasks.task import HubSource, SquadLayout, Task

_SQUAD2_FILES = {"train": ("train-v2.0.json", "train.json"), "dev": ("dev-v2.0.json", "dev.json")}
_SQUAD2_ROWS = {"train": 130_319, "dev": 11_873}
_SQUAD2_HUB = HubSource(path="rajpurkar/squad_v2")

SQUAD_TASKS = (
    Task(
        name="squad2",
        kind="spans",
        summary="SQuAD 2.0: the answer in the context, or none",
        layout=SquadLayout(),
        metrics=("f1", "exact"),
        files=_SQUAD2_FILES,
        folders=("squad2", "SQuAD2"),
        rows=_SQUAD2_ROWS,
        hub=_SQUAD2_HUB,
        builtin="qa",
    ),
    Task(
        name="squad1",
        kind="spans",
        summary="SQuAD 1.1: the answer in the context",
        layout=SquadLayout(answerable_only=True),
        metrics=("f1", "exact_match"),
        files={"train": ("train-v1.1.json", "train.json"), "dev": ("dev-v1.1.json", "dev.json")},
        folders=("squad1", "SQuAD1", "squad"),
        rows={"train": 87_599, "dev": 10_570},
        hub=HubSource(path="rajpurkar/squad"),
    ),
    Task(
        name="answerable",
        kind="labels",
        summary="SQuAD 2.0 as a question of yes or no: does the context hold an answer?",
        layout=SquadLayout(),
        labels=("no_answer", "has_answer"),
        metrics=("accuracy", "f1"),
        files=_SQUAD2_FILES,
        folders=("squad2", "SQuAD2"),
        rows=_SQUAD2_ROWS,
        hub=_SQUAD2_HUB,
        builtin="qa",
    ),
)


def is_squad(content: object) -> bool:
    """Whether parsed JSON has SQuAD's nested form."""
    match content:
        case {"data": [{"paragraphs": _}, *_]}:
            return True
        case _:
            return False


def read_questions(layout: SquadLayout, path: Path) -> tuple[Questions, list[BadRow]]:
    """The questions of a SQuAD file, and a bad row for each one that could not be read.

    Raises:
        DataError: the file cannot be read, or is not an object with a list `data`.
    """
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("data"), list):
        raise DataError(
            f"{path}: SQuAD's JSON is expected, "
            'an object {"data": [{"title": …, "paragraphs": [{"context": …, "qas": […]}]}]}.'
        )
    builder = QuestionsBuilder(answerable_only=layout.answerable_only)
    for where, title, context, question in _walk(path, content["data"], builder):
        builder.add(where, title, context, question)
    return builder.build(), builder.bad


def _walk(path: Path, data: list[object], builder: "QuestionsBuilder") -> Iterator[tuple[str, str, str, object]]:
    """Yield place, title, context and content of every question; add malformed articles and paragraphs to `bad`."""
    for a, article in enumerate(data):
        if not isinstance(article, dict) or not isinstance(article.get("paragraphs"), list):
            builder.bad.append(BadRow(f"{path}:data[{a}]", "an article with a list 'paragraphs' is expected"))
            continue
        title = str(article.get("title", ""))
        for p, paragraph in enumerate(article["paragraphs"]):
            match paragraph:
                case {"context": str(context), "qas": list(questions)}:
                    for q, question in enumerate(questions):
                        yield f"{path}:data[{a}].paragraphs[{p}].qas[{q}]", title, context, question
                case _:
                    builder.bad.append(
                        BadRow(
                            f"{path}:data[{a}].paragraphs[{p}]",
                            "a paragraph with the text 'context' and the list 'qas' is expected",
                        )
                    )


@dataclass(slots=True)
class QuestionsBuilder:
    """Checks questions one by one, and collects them as the columns of `Questions`; the others become bad rows."""

    answerable_only: bool = False
    bad: list[BadRow] = field(default_factory=list)
    _ids: dict[str, str] = field(default_factory=dict)  # id → place, in order
    _questions: list[str] = field(default_factory=list)
    _context_index: list[int] = field(default_factory=list)
    _answers: list[tuple[Answer, ...]] = field(default_factory=list)
    _contexts: dict[str, int] = field(default_factory=dict)  # context → number, in order
    _titles: list[str] = field(default_factory=list)

    def add(self, where: str, title: str, context: str, question: object) -> None:
        """Add one question in SQuAD's form, or a bad row that says what is wrong with it."""
        try:
            key, text, answers = self._parse(context, question)
        except ValueError as problem:
            name = f" (id {question['id']})" if isinstance(question, Mapping) and "id" in question else ""
            self.bad.append(BadRow(where + name, str(problem)))
            return
        self._ids[key] = where
        self._questions.append(text)
        self._answers.append(answers)
        number = self._contexts.setdefault(context, len(self._contexts))
        if number == len(self._titles):
            self._titles.append(title)
        self._context_index.append(number)

    def build(self) -> Questions:
        """All questions added so far."""
        return Questions(
            ids=list(self._ids),
            questions=self._questions,
            context_index=np.array(self._context_index, dtype=np.int64),
            answers=self._answers,
            contexts=list(self._contexts),
            titles=self._titles,
        )

    def _parse(self, context: str, question: object) -> tuple[str, str, tuple[Answer, ...]]:
        """Id, text and answers of a question; raises ValueError with the problem of a bad one."""
        match question:
            case {"id": str() | int() as key, "question": str(text), "answers": list(golds), **rest}:
                pass
            case _:
                raise ValueError("a question with 'id', 'question' and the list 'answers' is expected")
        key = str(key)
        if key in self._ids:
            raise ValueError(f"id '{key}' stands at {self._ids[key]} already")
        if not text.strip():
            raise ValueError("the question is empty")
        for part in (key, text, context):
            check_unicode(part)
        answers = tuple(_parse_answer(context, gold) for gold in golds)
        impossible = rest.get("is_impossible", not answers)
        if not isinstance(impossible, bool):
            raise ValueError(f"'is_impossible' is {impossible!r}, true or false is expected")  # noqa: TRY004 - a bad row
        if impossible and answers:
            raise ValueError("'is_impossible' is true, but there are answers")
        if not impossible and not answers:
            raise ValueError("'is_impossible' is false, but there is no answer")
        if self.answerable_only and not answers:
            raise ValueError("no answer, but SQuAD 1.1 has one for every question; for this file use the task squad2")
        return key, text, answers


def _parse_answer(context: str, gold: object) -> Answer:
    match gold:
        case {"text": str(text), "answer_start": int(start)} if text.strip() and not isinstance(start, bool):
            pass
        case _:
            raise ValueError("an answer with the text 'text' and the number 'answer_start' is expected")
    found = context[start : start + len(text)] if start >= 0 else ""
    if found != text:
        raise ValueError(f"answer '{text}' is not at character {start} of its context, '{found}' is")
    return Answer(text, start)
