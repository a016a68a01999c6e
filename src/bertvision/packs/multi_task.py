"""MultiTask: packs over one frozen encoder, all asked in a single pass."""

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
from bertvision.packs.spans import FITTED_LIMIT, decode_answers
from bertvision.packs.text_models import LIKELY, give_scores, rank_labels
from bertvision.tasks.task import SquadLayout
from bertvision.tasks.windows import Windows


@final
class MultiTask:
    """Several packs as one model: a text is encoded once, and every head reads the same states.

    Pairs of texts that are aligned are read in a pass of their own.

    Attributes:
        names: names of the packs: those of their tasks, with a number appended to repeated ones.
    """

    def __init__(self, packs: Sequence[Pack], *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load the encoder once, and the heads of all packs.

        Args:
            packs: over one encoder with the same changes.
            encoder: path or name of the encoder; None takes the one that the packs name.
            device: device to compute on.

        Raises:
            BertVisionError: packs lie over different encoders, or something cannot be loaded.
        """
        self._models = PackModels(packs, encoder=encoder, device=device)
        self.names = pack_names(self._models.cards)

    @classmethod
    def from_pretrained(
        cls, names: Sequence[str | Path], *, encoder: str | None = None, device: Device = "auto"
    ) -> Self:
        """Load packs by their folders, or by their names on the hub.

        Raises:
            BertVisionError: one is not there, or they lie over different encoders.
        """
        return cls([Pack.from_pretrained(name) for name in names], encoder=encoder, device=device)

    def __call__(
        self, text: str | Sequence[str], *, question: str | None = None, pair: str | Sequence[str] | None = None
    ) -> Any:  # noqa: ANN401 - its form depends on what is asked, one text or several
        """What every pack says about a text, or about each of several.

        Args:
            text: one or several; the context of questions.
            question: question that packs whose answers stand in a text ask of every text.
            pair: the second text of packs that read pairs: one for each text.

        Returns:
            By the pack's name: an answer `{"score", "start", "end", "answer"}`, "" where its threshold says that there
            is none; the likeliest label or the score, `{"label", "score"}`; of tags, a list of those that are likelier
            than not. For several texts a list of such.

        Raises:
            BertVisionError: a pack needs a question or a second text, and there is none.
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
        said = [
            _say(card, query.windows[0], found, texts, question)
            for card, query, found in zip(self._models.cards, queries, outputs, strict=True)
        ]
        results = [dict(zip(self.names, row, strict=True)) for row in zip(*said, strict=True)]
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


def _say(card: PackCard, windows: Windows, found: Outputs, texts: list[str], question: str | None) -> list[Any]:
    """What a pack says about each text."""
    if isinstance(found, SpanScores):
        questions = make_questions([question or ""] * len(texts), texts)
        said = decode_answers(card, windows, questions, found, best=1, limit=FITTED_LIMIT)
        nothing = [{"score": null, "start": 0, "end": 0, "answer": ""} for null in said.null]
        return [
            {"score": spans[0].score, "start": spans[0].start, "end": spans[0].end, "answer": _piece(text, spans[0])}
            if spans and not silent
            else none
            for text, spans, silent, none in zip(texts, said.spans, said.silent, nothing, strict=True)
        ]
    if card.task.kind == "scores":
        return give_scores(found)
    ranked = rank_labels(card, found)
    if card.task.kind == "tags":
        return [[one for one in labels if one["score"] > LIKELY] for labels in ranked]
    return [labels[0] for labels in ranked]


def _piece(text: str, span: tuple[int, int, float]) -> str:
    return text[span[0] : span[1]]
