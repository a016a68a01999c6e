"""One pass of an encoder over a split for the heads of all runs that share it, and for its own output."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import final

import torch

from bertvision.amounts import in_words
from bertvision.device import Device
from bertvision.encoder.load import fingerprint
from bertvision.encoder.snapshot import Snapshot
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import Outputs, SpanScores, merge_rows
from bertvision.heads import Head, layers_read, load_head
from bertvision.heads.options import ATTENTION
from bertvision.inference.computed_states import RowStates, StreamStates, encode_texts
from bertvision.inference.frozen_encoder import frozen_passes, load_frozen
from bertvision.inference.outputs import frozen_batches
from bertvision.inference.own_scores import own_scores
from bertvision.objectives import Pool
from bertvision.runs.fitting.frozen import head_shape
from bertvision.runs.fitting.read import Tell, read_heads
from bertvision.runs.judging.kept_outputs import ModelOutputs
from bertvision.runs.judging.subject import OWN_OUTPUT, Subject
from bertvision.tasks.examples import IntArray
from bertvision.tasks.part import Part
from bertvision.training.fit import States
from bertvision.training.states import StateBatch


def read_subjects(
    subjects: Sequence[Subject], *, device: Device, tell: Tell
) -> list[tuple[str, dict[str, ModelOutputs]]]:
    """Of every subject the fingerprint of its encoder, and the outputs of its heads by name.

    Subjects whose encoder, windows and settings are the same share the pass.

    Raises:
        BertVisionError: an encoder or head cannot be had, or is another than the run's.
    """
    found: dict[int, tuple[str, dict[str, ModelOutputs]]] = {}
    for numbers in _groups(subjects):
        first = subjects[numbers[0]]
        tell(f"reading {first.run.request.encoder} …")
        group = SharedPass(first, device)
        for number in numbers:
            group.check(subjects[number])
        read = group.read({(n, name): subjects[n] for n in numbers for name in subjects[n].heads}, tell)
        for number in numbers:
            outputs = {name: read[number, name] for name in subjects[number].heads}
            found[number] = group.weights, outputs
    return [found[number] for number in range(len(subjects))]


def _groups(subjects: Sequence[Subject]) -> Iterable[list[int]]:
    """Numbers of the subjects that share a pass."""
    groups: dict[object, list[int]] = {}
    for number, subject in enumerate(subjects):
        request, parts = subject.run.request, subject.parts
        key = request.encoder, subject.digests, parts.pool, parts.pairs, request.pool == ATTENTION, request.dtype
        groups.setdefault((*key, request.task), []).append(number)
    return groups.values()


@final
class SharedPass:
    """An encoder for subjects that share it and their windows.

    Attributes:
        encoder: frozen.
        weights: its fingerprint.
        pool: which row heads read of a text; None where they read every token.
    """

    def __init__(self, first: Subject, device: Device) -> None:
        """Load the encoder of the first of them.

        Raises:
            BertVisionError: it cannot be had.
        """
        request = first.run.request
        self._first = first
        self._spans = first.parts.task.kind == "spans"
        self._in_memory = not self._spans and request.pool != ATTENTION
        self.encoder = load_frozen(request.encoder, device=device, dtype=request.dtype)
        self._passes = frozen_passes(self.encoder, dtype=request.dtype)
        self.weights = fingerprint(self.encoder)
        self.pool: Pool | None = None if self._spans else first.parts.pool

    def check(self, subject: Subject) -> None:
        """Refuse an encoder that is not the one that heads learnt on.

        Raises:
            BertVisionError: it is another.
        """
        expected = subject.run.weights
        if expected is not None and expected != self.weights:
            raise BertVisionError(
                f"{subject.run.name} was fitted on an encoder with fingerprint {expected}; the one here has "
                f"{self.weights}. Use the same weights."
            )

    def read(self, models: dict[tuple[int, str], Subject], tell: Tell) -> dict[tuple[int, str], ModelOutputs]:
        """The outputs of all models, by key."""
        heads: dict[tuple[int, str], Head] = {}
        apart: dict[tuple[int, str], Snapshot] = {}
        for key, subject in models.items():
            head = self.load(subject, key[1])
            if head is not None:
                heads[key] = head
            elif subject.run.own is not None:
                apart[key] = subject.run.own
        parts = [self._first.part, self._first.held_out]
        tell(f"encoding {self._first.split} for {in_words(len(models), 'model')} …")
        outputs = [None if part is None else self._read(list(heads.values()), part, tell) for part in parts]
        read = {key: tuple(None if one is None else one[n] for one in outputs) for n, key in enumerate(heads)}
        for key, own in apart.items():
            read[key] = self._own(own, parts)
        return {key: _both(*read[key]) for key in models}

    def load(self, subject: Subject, name: str) -> Head | None:
        """A head of a subject, ready to read; None for an own output that cannot read what heads read.

        Raises:
            BertVisionError: it is not there, or does not fit the encoder.
        """
        own = subject.run.own if name == OWN_OUTPUT else None
        shape = None if own is not None else head_shape(self.encoder, self._first.parts)
        head = load_head(subject.head_folder(name), shape=shape)
        return head.to(self.encoder.device) if own is None or self._shares(own, head) else None

    def batches(self, part: Part, layers: range) -> Iterator[tuple[IntArray, StateBatch]]:
        """Numbers of windows, and their states, until all of a part were there."""
        states = self._states(part, layers)
        for rows in frozen_batches(part.windows.sizes, self.encoder.device):
            yield rows, states.batch(rows)

    def autocast(self) -> torch.autocast:
        """How heads compute."""
        return torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=self._passes.bf16)

    def _shares(self, own: Snapshot, head: Head) -> bool:
        """Whether the encoder's own output can read what the heads read."""
        if own.pooled or self._spans:
            return not own.pooled
        parts = self._first.parts
        plain = head.token_wise and head.token_pool is None
        return plain and own.pool == parts.pool and not parts.separate and self._in_memory

    @torch.inference_mode()
    def _read(self, heads: Sequence[Head], part: Part, tell: Tell) -> list[Outputs]:
        if not heads:
            return []
        task = self._first.parts.task
        found = read_heads(
            heads,
            self._states(part, layers_read(heads)),
            part.windows,
            task=task,
            pool=self._first.parts.pool,
            device=self.encoder.device,
            bf16=self._passes.bf16,
            tell=tell,
        )
        return [one if isinstance(one, SpanScores) else merge_rows(task, part.windows, one) for one in found]

    def _states(self, part: Part, layers: range) -> States:
        if not self._in_memory:
            return StreamStates(self.encoder, part.windows, self._passes, layers)
        parts = self._first.parts
        texts = parts.texts(part)
        rows = encode_texts(self.encoder, texts, self._passes, pool=parts.pool, pairs=parts.pairs, layers=layers)
        return RowStates(rows, self.encoder.device, lowest=layers[0])

    def _own(self, own: Snapshot, parts: Sequence[Part | None]) -> tuple[Outputs | None, ...]:
        """What a snapshot's own output gives in a pass of its own: it was tuned on other rows than heads read."""
        shared, task = self._first.parts, self._first.parts.task
        there = [part for part in parts if part is not None]
        if shared.separate:
            there = [replace(shared, pairs="together").part(part.examples) for part in there]
        windows = [part.windows for part in there]
        name = self._first.run.request.encoder
        found = own_scores(own, self.encoder, windows, name=name, passes=self._passes, task=task)
        whole = iter(
            one if isinstance(one, SpanScores) else merge_rows(task, cut, one)
            for one, cut in zip(found, windows, strict=True)
        )
        return tuple(None if part is None else next(whole) for part in parts)


def _both(split: Outputs | None, held_out: Outputs | None) -> ModelOutputs:
    if split is None:
        raise TypeError("there is always a split")
    return ModelOutputs(split, held_out)
