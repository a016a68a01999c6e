"""PackService: packs over one or several encoders; computes the jobs of many clients in one pass per encoder."""

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
"""The body of a reply, which is sent as JSON."""

TOP = 20
"""Maximum number of answers that a request may ask for."""


@final
class PackService:
    """Packs that are served; those with the same encoder share it and its passes.

    Attributes:
        names: names of the packs: those of their tasks, with a number appended to repeated ones.
        cards: cards of the packs.
        passes: number of encoder passes so far.
    """

    def __init__(self, packs: Sequence[PackFolder], *, encoder: str | None = None, device: Device = "auto") -> None:
        """Load every encoder once, and the heads of all packs.

        Args:
            packs: at least one; an exported pack contains its encoder, and runs without PyTorch.
            encoder: path or name of the encoder; None takes the one that the packs name.
            device: device to compute on.

        Raises:
            BertVisionError: no pack was given, or something cannot be loaded.
        """
        if not packs:
            raise BertVisionError("no pack was given; at least one is expected.")
        self.cards: tuple[PackCard, ...] = tuple(pack.card for pack in packs)
        self.names = pack_names(self.cards)
        self.passes = 0
        self._readers: dict[int, tuple[Reader, int]] = {}  # by pack: its reader, and its index there
        for numbers in _sharing(packs):
            reader = load_reader(*(packs[number] for number in numbers), encoder=encoder, device=device)
            self._readers |= {number: (reader, index) for index, number in enumerate(numbers)}

    def check(self, job: Job) -> None:
        """Refuse a job that its pack cannot read, before it shares a pass with the jobs of other clients.

        Raises:
            BertVisionError: a text is missing, empty or invalid, or there is a second text where the pack reads one; or
                the contributions of layers are requested of an exported pack.
        """
        card = self.cards[job.pack]
        if job.layers and not self._readers[job.pack][0].explains:
            raise BertVisionError(
                f"the pack {self.names[job.pack]} was exported, and does not tell what layers contributed. "
                "Serve the pack that it was made of."
            )
        if card.task.kind != "spans":
            make_texts(card, [_input(job)])
        if isinstance(card.task.layout, SquadLayout):
            make_questions([job.text], [job.pair or ""])

    def run(self, jobs: Sequence[Job]) -> list[Reply]:
        """The replies to jobs, from one pass over each encoder for all of them.

        Each job for the contributions of layers needs a pass of its own, and packs that align pairs a further one for
        their jobs.
        """
        by_reader: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))  # reader → pack → rows
        replies: dict[int, Reply] = {}
        for row, job in enumerate(jobs):
            if job.layers:
                replies[row] = self._layers(job)
            else:
                by_reader[id(self._readers[job.pack][0])][job.pack].append(row)
        for by_pack in by_reader.values():
            replies |= self._pass(jobs, by_pack)
        return [replies[row] for row in range(len(jobs))]

    def _pass(self, jobs: Sequence[Job], by_pack: Mapping[int, Sequence[int]]) -> dict[int, Reply]:
        """Replies by row, from one pass for packs that share an encoder.

        Args:
            jobs: all jobs.
            by_pack: rows of the jobs for each of these packs.
        """
        reader = self._readers[next(iter(by_pack))][0]
        queries = [
            PackQuery(self._readers[pack][1], self._windows(pack, [jobs[row] for row in rows]))
            for pack, rows in by_pack.items()
        ]
        self.passes += 1
        replies: dict[int, Reply] = {}
        for (pack, rows), query, outputs in zip(by_pack.items(), queries, reader.read_heads(queries), strict=True):
            pack_jobs, windows = [jobs[row] for row in rows], query.windows[0]
            task = self.cards[pack].task
            by_head = [self._replies(pack, pack_jobs, windows, join_heads(task, windows, [head])) for head in outputs]
            joined = join_heads(task, windows, outputs)
            together = by_head[0] if len(outputs) == 1 else self._replies(pack, pack_jobs, windows, joined)
            for row, job, reply, *of_heads in zip(rows, pack_jobs, together, *by_head, strict=True):
                named = [{"head": name} | one for name, one in zip(self.heads(pack), of_heads, strict=True)]
                replies[row] = {"pack": self.names[pack], **_shortened(reply, job.top), "heads": named}
        return replies

    def heads(self, pack: int) -> list[str]:
        """The names of a pack's heads, without the leading numbers of their folders if they differ without these."""
        names = [name.partition("-")[2] if name[:3].isdigit() else name for name in self.cards[pack].heads]
        return names if len(set(names)) == len(names) else list(self.cards[pack].heads)

    def _windows(self, pack: int, jobs: Sequence[Job]) -> tuple[Windows, ...]:
        card, tokenizer = self.cards[pack], self._readers[pack][0].tokenizer
        if card.task.kind == "spans":
            questions = make_questions([job.text for job in jobs], [job.pair or "" for job in jobs])
            return (question_windows(card, questions, tokenizer),)
        return text_windows(card, make_texts(card, [_input(job) for job in jobs]), tokenizer)

    def _replies(self, pack: int, jobs: Sequence[Job], windows: Windows, outputs: Outputs) -> list[Reply]:
        """Answers, labels or scores for the jobs of one pack, from the outputs of one head or of all joined."""
        card = self.cards[pack]
        if isinstance(outputs, SpanScores):
            answers = self._decode(card, jobs, windows, outputs)
            return [_answer(answers, row, job.pair or "") for row, job in enumerate(jobs)]
        if card.task.kind == "scores":
            return [{"score": one["score"]} for one in give_scores(outputs)]
        ranked = rank_labels(card, outputs)
        several = card.task.kind == "tags"
        return [
            {"chosen": [one["label"] for one in labels if one["score"] > LIKELY] if several else [labels[0]["label"]]}
            | {"labels": labels}
            for labels in ranked
        ]

    def _decode(
        self, card: PackCard, jobs: Sequence[Job], windows: Windows, scores: SpanScores, *, whole_words: bool = True
    ) -> SpanAnswers:
        questions = make_questions([job.text for job in jobs], [job.pair or "" for job in jobs])
        return decode_answers(card, windows, questions, scores, best=TOP, limit=FITTED_LIMIT, whole_words=whole_words)

    def _layers(self, job: Job) -> Reply:
        """How much each layer contributed to the prediction of each head."""
        reader, index = self._readers[job.pack]
        query = PackQuery(index, self._windows(job.pack, [job]))
        self.passes += 1
        (outputs,) = reader.read_heads([query])
        explained = [self._explain(job, query.windows[0], head) for head in outputs]
        contributions = reader.contributions(query, [target for _, target in explained])
        heads = [
            {"head": name, "explains": words, "layers": _layer_list(values)}
            for name, (words, _), values in zip(self.heads(job.pack), explained, contributions, strict=True)
        ]
        return {"pack": self.names[job.pack], "heads": heads}

    def _explain(self, job: Job, windows: Windows, outputs: Outputs) -> tuple[str | None, Target]:
        """A head's prediction in words, None for "no answer", and the outputs that it follows from."""
        card = self.cards[job.pack]
        if isinstance(outputs, SpanScores):
            answers = self._decode(card, [job], windows, outputs, whole_words=False)
            if answers.silent[0] or not answers.spans[0]:
                return None, span_target(windows, outputs, None)
            start, end, _ = answers.spans[0][0]
            return (job.pair or "")[start:end], span_target(windows, outputs, (start, end))
        (row,) = merge_rows(card.task, windows, outputs)
        window, output = int(np.flatnonzero((outputs == row).all(axis=1))[0]), int(row.argmax())
        words = "score" if card.task.kind == "scores" else card.task.labels[output]
        return words, Target(window, ((0, output),))


def _sharing(packs: Sequence[PackFolder]) -> list[list[int]]:
    """Indices of the packs, grouped by encoder with its changes; an exported pack is alone in its group."""
    shared: dict[str, list[int]] = defaultdict(list)
    for number, pack in enumerate(packs):
        shared[pack.encoder_id or str(number)].append(number)
    return list(shared.values())


def _layer_list(values: NDArray[np.float64]) -> list[Reply]:
    """The layers with their contributions, (layers,), and the share of each one's absolute value."""
    sizes = np.abs(values)
    shares = sizes / sizes.sum() if sizes.any() else sizes
    return [
        {"layer": layer, "contribution": value, "share": share}
        for layer, (value, share) in enumerate(zip(values.tolist(), shares.tolist(), strict=True))
    ]


def _input(job: Job) -> TextInput:
    return job.text if job.pair is None else (job.text, job.pair)


def _answer(answers: SpanAnswers, row: int, context: str) -> Reply:
    """A reply in the form of `bertvision answer --json`, with the probability of "no answer"."""
    spans = [
        {"answer": context[span.start : span.end], "score": span.score, "start": span.start, "end": span.end}
        for span in answers.spans[row]
    ]
    null = answers.null[row]
    if answers.silent[row] or not spans:
        spans = [{"answer": None, "score": null, "start": None, "end": None}, *spans]
    return spans[0] | {"no_answer": null, "alternatives": spans[1:]}


def _shortened(reply: Reply, top: int | None) -> Reply:
    """The reply with at most `top` answers, the best included; None leaves it as it is."""
    return reply if top is None else reply | {"alternatives": reply["alternatives"][: top - 1]}
