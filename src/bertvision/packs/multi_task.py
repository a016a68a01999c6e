"""MultiTask: several packs over one frozen encoder, computed in a single encoder pass."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, final

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import Outputs, SpanScores
from bertvision.packs.card import PackCard, pack_names
from bertvision.packs.inputs import TextInput, make_questions, make_texts, question_windows, takes_pairs, text_windows
from bertvision.packs.models import PackModels
from bertvision.packs.pack import Pack
from bertvision.packs.reader import PackQuery
from bertvision.packs.spans import FITTED_LIMIT, Span, decode_answers
from bertvision.packs.text_models import LIKELY, give_scores, rank_labels
from bertvision.tasks.task import SquadLayout
from bertvision.tasks.windows import Windows


@final
class MultiTask:
    """Several packs as one model: a text is encoded once, and every head reads the same hidden states.

    Packs that align the two texts of a pair need a separate pass.

    Attributes:
        names: names of the packs: those of their tasks, with a number appended to repeated ones.
    """

    def __init__(self, packs: Sequence[Pack], *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load the encoder once, and the heads of all packs.

        Args:
            packs: packs over one encoder with the same changes.
            encoder: path or name of the encoder; None takes the one that the packs name.
            device: device to compute on.

        Raises:
            BertVisionError: the packs are not over one encoder with the same changes, or loading fails.
        """
        self._models = PackModels(packs, encoder=encoder, device=device)
        self.names = pack_names(self._models.cards)

    @classmethod
    def from_pretrained(
        cls, names: Sequence[str | Path], *, encoder: str | None = None, device: Device = "auto"
    ) -> Self:
        """Load packs by their folders, or by their names on the hub.

        Raises:
            BertVisionError: a pack does not exist, or as the constructor.
        """
        return cls([Pack.from_pretrained(name) for name in names], encoder=encoder, device=device)

    def __call__(
        self, text: str | Sequence[str], *, question: str | None = None, pair: str | Sequence[str] | None = None
    ) -> Any:  # noqa: ANN401 - a dictionary for one text, a list of them for several
        """The prediction of every pack for a text, or for each of several texts.

        Args:
            text: a text, or several; for question answering, the contexts.
            question: question for the packs that answer questions, the same for every text.
            pair: for packs that read pairs, the second text for each text.

        Returns:
            By the pack's name: an answer, `{"score", "start", "end", "answer"}`, "" where the threshold says that there
            is none; the most probable label or the score, `{"label", "score"}`; or for tags a list of those more
            probable than 1/2. For several texts, a list of such dictionaries.

        Raises:
            BertVisionError: a pack needs a question or second texts and gets none, their number differs from that of
                the texts, or an input is empty or no text.
        """
        texts = [text] if isinstance(text, str) else list(text)
        pairs = None if pair is None else [pair] if isinstance(pair, str) else list(pair)
        if pairs is not None and len(pairs) != len(texts):
            raise BertVisionError(f"{len(texts)} texts and {len(pairs)} second texts: one each is expected.")
        if not texts:
            return []
        shared: dict[object, tuple[Windows, ...]] = {}
        queries = []
        for number, card in enumerate(self._models.cards):
            key = isinstance(card.task.layout, SquadLayout), takes_pairs(card), card.separate, card.windows
            if key not in shared:
                shared[key] = self._windows(card, texts, question, pairs)
            queries.append(PackQuery(number, shared[key]))
        outputs = self._models.read(queries)
        predictions = [
            _predictions(card, query.windows[0], joined, texts, question)
            for card, query, joined in zip(self._models.cards, queries, outputs, strict=True)
        ]
        results = [dict(zip(self.names, row, strict=True)) for row in zip(*predictions, strict=True)]
        return results[0] if isinstance(text, str) else results

    def _windows(
        self, card: PackCard, texts: list[str], question: str | None, pairs: list[str] | None
    ) -> tuple[Windows, ...]:
        tokenizer = self._models.tokenizer
        if isinstance(card.task.layout, SquadLayout):
            if question is None:
                raise BertVisionError(f"the pack for {card.task.name} needs a question: question='…'.")
            return (question_windows(card, make_questions([question] * len(texts), texts), tokenizer),)
        inputs: list[TextInput] = list(texts)
        if takes_pairs(card):
            if pairs is None:
                raise BertVisionError(f"the pack for {card.task.name} reads pairs and needs a second text: pair='…'.")
            inputs = list(zip(texts, pairs, strict=True))
        return text_windows(card, make_texts(card, inputs), tokenizer)


def _predictions(
    card: PackCard, windows: Windows, outputs: Outputs, texts: list[str], question: str | None
) -> list[Any]:
    """A pack's prediction for each text, from the joined outputs of its heads."""
    if isinstance(outputs, SpanScores):
        questions = make_questions([question or ""] * len(texts), texts)
        answers = decode_answers(card, windows, questions, outputs, best=1, limit=FITTED_LIMIT)
        nulls = [{"score": null, "start": 0, "end": 0, "answer": ""} for null in answers.null]
        return [
            {"score": spans[0].score, "start": spans[0].start, "end": spans[0].end, "answer": _piece(text, spans[0])}
            if spans and not silent
            else null
            for text, spans, silent, null in zip(texts, answers.spans, answers.silent, nulls, strict=True)
        ]
    if card.task.kind == "scores":
        return give_scores(outputs)
    ranked = rank_labels(card, outputs)
    if card.task.kind == "tags":
        return [[tag for tag in tags if tag["score"] > LIKELY] for tags in ranked]
    return [labels[0] for labels in ranked]


def _piece(text: str, span: Span) -> str:
    return text[span.start : span.end]
