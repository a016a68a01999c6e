"""User input → checked examples, and their token windows."""

from collections.abc import Mapping, Sequence

import numpy as np

from bertvision.errors import BertVisionError
from bertvision.packs.card import PackCard
from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.files import check_unicode
from bertvision.tasks.task import SquadLayout
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows

TextInput = str | Mapping[str, str] | tuple[str, str]
"""A text; or a pair: {"text": …, "text_pair": …} or two texts."""


def make_questions(questions: Sequence[str], contexts: Sequence[str]) -> Questions:
    """Build questions without gold answers; equal contexts are stored once.

    Raises:
        BertVisionError: a question or context is empty, not a string, or not valid Unicode.
    """
    for what, texts in (("question", questions), ("context", contexts)):
        for text in texts:
            _check_text(what, text)
            if not text.strip():
                raise BertVisionError(f"the {what} is empty, text is expected.")
    numbers: dict[str, int] = {}
    index = [numbers.setdefault(context, len(numbers)) for context in contexts]
    return Questions(
        ids=[str(number) for number in range(len(questions))],
        questions=list(questions),
        context_index=np.array(index, dtype=np.int64),
        answers=[()] * len(questions),
        contexts=list(numbers),
        titles=[""] * len(numbers),
    )


def make_texts(card: PackCard, inputs: Sequence[TextInput]) -> Texts:
    """Build texts, or pairs if the pack reads pairs; all targets are 0.

    Raises:
        BertVisionError: an input is no text, or a single text where the pack reads pairs, or a pair where it does not.
    """
    both = [_pair(item) for item in inputs]
    for text, pair in both:
        _check_text("text", text)
        if (pair is not None) != takes_pairs(card):
            wanted = "pairs of texts" if takes_pairs(card) else "single texts"
            raise BertVisionError(
                f"the pack for {card.task.name} reads {wanted}, got {'a pair' if pair is not None else 'one text'}. "
                'Pairs are {"text": …, "text_pair": …}.'
            )
        if pair is not None:
            _check_text("text_pair", pair)
    pairs = [pair for _, pair in both if pair is not None]
    targets = np.zeros((len(both), len(card.task.labels)) if card.task.kind == "tags" else len(both), dtype=np.int64)
    return Texts(
        ids=[str(number) for number in range(len(both))],
        texts=[text for text, _ in both],
        pairs=pairs if takes_pairs(card) else None,
        targets=targets,
    )


def takes_pairs(card: PackCard) -> bool:
    """Whether a pack reads two texts: pairs, or a question and a context."""
    return isinstance(card.task.layout, SquadLayout) or card.task.layout.pair is not None


def text_windows(card: PackCard, texts: Texts, tokenizer: TextTokenizer) -> tuple[Windows, ...]:
    """The token windows of texts, cut as in training: of first and second texts if these are encoded separately."""
    if isinstance(card.task.layout, SquadLayout):  # the task labels questions with their contexts
        questions = make_questions(texts.texts, texts.pairs or [])
        return (build_windows(card.task, questions, tokenizer, card.windows),)
    sides = texts.sides() if card.separate else (texts,)
    return tuple(build_windows(card.task, side, tokenizer, card.windows) for side in sides)


def question_windows(
    card: PackCard, questions: Questions, tokenizer: TextTokenizer, options: WindowOptions | None = None
) -> Windows:
    """The token windows of questions and contexts; options of None are those of the pack."""
    return build_windows(card.task, questions, tokenizer, options or card.windows)


def _pair(item: TextInput) -> tuple[str, str | None]:
    """The first and, if there is one, the second text of an input."""
    match item:
        case str():
            return item, None
        case {"text": str(text), "text_pair": str(pair)}:
            return text, pair
        case {"text": str(text)}:
            return text, None
        case (str(text), str(pair)):
            return text, pair
        case _:
            raise BertVisionError(f'a text, {{"text": …, "text_pair": …}} or two texts are expected, got {item!r}.')


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str):
        raise BertVisionError(f"the {what} is {type(text).__name__}, text is expected.")
    try:
        check_unicode(text)
    except ValueError as problem:
        raise BertVisionError(f"the {what} cannot be read: {problem}.") from None
