"""PackService: packs over one encoder or several; the jobs of many clients in one pass for each encoder."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from bertvision.device import Device
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import Outputs, SpanScores, join_heads, merge_rows
from bertvision.packs.card import PackCard, pack_names
from bertvision.packs.inputs import TextInput, make_questions, make_texts, question_windows, text_windows
from bertvision.packs.open_pack import load_reader
from bertvision.packs.pack_folder import PackFolder
from bertvision.packs.reader import PackQuery, Reader
from bertvision.packs.spans import FITTED_LIMIT, SpanAnswers, decode_answers
from bertvision.packs.target import Target, span_target
from bertvision.packs.text_models import LIKELY, give_scores, rank_labels
from bertvision.server.jobs import Job
from bertvision.tasks.task import SquadLayout
from bertvision.tasks.windows import Windows

Reply = dict[str, Any]
"""What is sent as JSON."""

TOP = 20
"""Most answers that can be asked for."""


@final
class PackService:
    """Packs that are served; those with the same encoder share it and its passes.

    Attributes:
        names: names of the packs: those of their tasks, with a number appended to repeated ones.
        cards: cards of the packs.
        passes: how many passes over an encoder there were.
    """

    def __init__(self, packs: Sequence[PackFolder], *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load every encoder once, and the heads of all packs.

        Args:
            packs: at least one; an exported one brings its encoder with it, and runs without PyTorch.
            encoder: path or name of the encoder; None takes the one that the packs name.
            device: device to compute on.

        Raises:
            BertVisionError: something cannot be loaded.
        """
        if not packs:
            raise BertVisionError("no pack was given; at least one is expected.")
        self.cards: tuple[PackCard, ...] = tuple(pack.card for pack in packs)
        self.names = pack_names(self.cards)
        self.passes = 0
        self._place: dict[int, tuple[Reader, int]] = {}
        for numbers in _sharing(packs):
            reader = load_reader(*(packs[number] for number in numbers), encoder=encoder, device=device)
            self._place |= {number: (reader, place) for place, number in enumerate(numbers)}

    def check(self, job: Job) -> None:
        """Refuse what the pack cannot read, before it is mixed with the jobs of others.

        Raises:
            BertVisionError: a text is missing, empty, one too many, or no text; or it has no layers to tell of.
        """
        card = self.cards[job.pack]
        if job.layers and not self._place[job.pack][0].explains:
            raise BertVisionError(
                f"the pack {self.names[job.pack]} was exported, and does not tell what layers contributed. "
                "Serve the pack that it was made of."
            )
        if card.task.kind != "spans":
            make_texts(card, [_input(job)])
        if isinstance(card.task.layout, SquadLayout):
            make_questions([job.text], [job.pair or ""])

    def run(self, jobs: Sequence[Job]) -> list[Reply]:
        """The reply to every job: one pass over each encoder for all of them, but one for each that asks for layers.

        Packs that align two texts take another one for their jobs.
        """
        by_models: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        replies: dict[int, Reply] = {}
        for row, job in enumerate(jobs):
            if job.layers:
                replies[row] = self._layers(job)
            else:
                by_models[id(self._place[job.pack][0])][job.pack].append(row)
        for by_pack in by_models.values():
            replies |= self._pass(jobs, by_pack)
        return [replies[row] for row in range(len(jobs))]

    def _pass(self, jobs: Sequence[Job], by_pack: Mapping[int, Sequence[int]]) -> dict[int, Reply]:
        models = self._place[next(iter(by_pack))][0]
        queries = [
            PackQuery(self._place[pack][1], self._windows(pack, [jobs[row] for row in rows]))
            for pack, rows in by_pack.items()
        ]
        self.passes += 1
        replies: dict[int, Reply] = {}
        for (pack, rows), query, outputs in zip(by_pack.items(), queries, models.read_heads(queries), strict=True):
            mine, windows = [jobs[row] for row in rows], query.windows[0]
            task = self.cards[pack].task
            heads = [self._say(pack, mine, windows, join_heads(task, windows, [one])) for one in outputs]
            joined = join_heads(task, windows, outputs)
            whole = heads[0] if len(outputs) == 1 else self._say(pack, mine, windows, joined)
            for row, job, said, *each in zip(rows, mine, whole, *heads, strict=True):
                named = [{"head": name} | one for name, one in zip(self.heads(pack), each, strict=True)]
                replies[row] = {"pack": self.names[pack], **_shortened(said, job.top), "heads": named}
        return replies

    def heads(self, pack: int) -> list[str]:
        """The names of a pack's heads, without the numbers before them."""
        names = [name.partition("-")[2] if name[:3].isdigit() else name for name in self.cards[pack].heads]
        return names if len(set(names)) == len(names) else list(self.cards[pack].heads)

    def _windows(self, pack: int, jobs: Sequence[Job]) -> tuple[Windows, ...]:
        card, tokenizer = self.cards[pack], self._place[pack][0].tokenizer
        if card.task.kind == "spans":
            questions = make_questions([job.text for job in jobs], [job.pair or "" for job in jobs])
            return (question_windows(card, questions, tokenizer),)
        return text_windows(card, make_texts(card, [_input(job) for job in jobs]), tokenizer)

    def _say(self, pack: int, jobs: Sequence[Job], windows: Windows, found: Outputs) -> list[Reply]:
        card = self.cards[pack]
        if isinstance(found, SpanScores):
            said = self._decode(card, jobs, windows, found)
            return [_answer(said, row, job.pair or "") for row, job in enumerate(jobs)]
        if card.task.kind == "scores":
            return [{"score": one["score"]} for one in give_scores(found)]
        ranked = rank_labels(card, found)
        several = card.task.kind == "tags"
        return [
            {"chosen": [one["label"] for one in labels if one["score"] > LIKELY] if several else [labels[0]["label"]]}
            | {"labels": labels}
            for labels in ranked
        ]

    def _decode(
        self, card: PackCard, jobs: Sequence[Job], windows: Windows, found: SpanScores, *, whole_words: bool = True
    ) -> SpanAnswers:
        questions = make_questions([job.text for job in jobs], [job.pair or "" for job in jobs])
        return decode_answers(card, windows, questions, found, best=TOP, limit=FITTED_LIMIT, whole_words=whole_words)

    def _layers(self, job: Job) -> Reply:
        """What each head took from each layer for what it said."""
        models, place = self._place[job.pack]
        query = PackQuery(place, self._windows(job.pack, [job]))
        self.passes += 1
        (outputs,) = models.read_heads([query])
        explained = [self._explain(job, query.windows[0], one) for one in outputs]
        found = models.contributions(query, [target for _, target in explained])
        heads = [
            {"head": name, "explains": words, "layers": _layer_list(values)}
            for name, (words, _), values in zip(self.heads(job.pack), explained, found, strict=True)
        ]
        return {"pack": self.names[job.pack], "heads": heads}

    def _explain(self, job: Job, windows: Windows, found: Outputs) -> tuple[str | None, Target]:
        """What a head said, and the outputs that made it say so."""
        card = self.cards[job.pack]
        if isinstance(found, SpanScores):
            said = self._decode(card, [job], windows, found, whole_words=False)
            if said.silent[0] or not said.spans[0]:
                return None, span_target(windows, found, None)
            start, end, _ = said.spans[0][0]
            return (job.pair or "")[start:end], span_target(windows, found, (start, end))
        (row,) = merge_rows(card.task, windows, found)
        window, output = int(np.flatnonzero((found == row).all(axis=1))[0]), int(row.argmax())
        words = "score" if card.task.kind == "scores" else card.task.labels[output]
        return words, Target(window, ((0, output),))


def _sharing(packs: Sequence[PackFolder]) -> list[list[int]]:
    """Numbers of the packs that share an encoder; those that were exported have one each."""
    shared: dict[str, list[int]] = defaultdict(list)
    for number, pack in enumerate(packs):
        shared[pack.encoder_id or str(number)].append(number)
    return list(shared.values())


def _layer_list(values: NDArray[np.float64]) -> list[Reply]:
    sizes = np.abs(values)
    shares = sizes / sizes.sum() if sizes.any() else sizes
    return [
        {"layer": layer, "contribution": value, "share": share}
        for layer, (value, share) in enumerate(zip(values.tolist(), shares.tolist(), strict=True))
    ]


def _input(job: Job) -> TextInput:
    return job.text if job.pair is None else (job.text, job.pair)


def _answer(said: SpanAnswers, row: int, context: str) -> Reply:
    """A reply in the form of `bertvision answer --json`, with the probability of "no answer"."""
    spans = [
        {"answer": context[span.start : span.end], "score": span.score, "start": span.start, "end": span.end}
        for span in said.spans[row]
    ]
    if said.silent[row] or not spans:
        spans = [{"answer": None, "score": said.null[row], "start": None, "end": None}, *spans]
    return spans[0] | {"no_answer": said.null[row], "alternatives": spans[1:]}


def _shortened(said: Reply, top: int | None) -> Reply:
    """Only as many answers as are wanted."""
    return said if top is None else said | {"alternatives": said["alternatives"][: top - 1]}
