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
from bertvision.evaluation.outputs import Outputs, merge_windows
from bertvision.heads import Head, layers_read, load_head
from bertvision.inference.computed_states import RowStates, StreamStates, encode_texts
from bertvision.inference.frozen_encoder import frozen_passes, load_frozen
from bertvision.inference.outputs import frozen_batches
from bertvision.inference.own_scores import own_scores
from bertvision.objectives import Pool
from bertvision.runs.fitting.frozen import head_shape
from bertvision.runs.fitting.read import Tell, read_heads
from bertvision.runs.judging.kept_outputs import ModelOutputs, RunOutputs
from bertvision.runs.judging.subject import OWN_OUTPUT, Subject
from bertvision.tasks.examples import IntArray
from bertvision.tasks.part import Part
from bertvision.training.fit import States
from bertvision.training.states import StateBatch


def read_subjects(subjects: Sequence[Subject], *, device: Device, tell: Tell) -> list[RunOutputs]:
    """The outputs of every subject.

    Subjects whose encoder, windows and settings are the same share the pass.

    Raises:
        BertVisionError: an encoder or head cannot be had, or is another than the run's.
    """
    found: dict[int, RunOutputs] = {}
    for numbers in _groups(subjects):
        group = [subjects[number] for number in numbers]
        tell(f"reading {group[0].run.request.encoder} …")
        shared = SharedPass(group[0], device)
        for subject in group:
            shared.check(subject)
        found |= zip(numbers, shared.read(group, tell), strict=True)
    return [found[number] for number in range(len(subjects))]


def _groups(subjects: Sequence[Subject]) -> Iterable[list[int]]:
    """Numbers of the subjects that share a pass."""
    groups: dict[object, list[int]] = {}
    for number, subject in enumerate(subjects):
        request, parts = subject.run.request, subject.parts
        reads_rows = request.reads_rows(parts.task)
        key = request.encoder, subject.digests, parts.pool, parts.pairs, reads_rows, request.dtype, request.task
        groups.setdefault(key, []).append(number)
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
        self._in_memory = request.reads_rows(first.parts.task)
        self.encoder = load_frozen(request.encoder, device=device, dtype=request.dtype)
        self._passes = frozen_passes(self.encoder, dtype=request.dtype)
        self.weights = fingerprint(self.encoder)
        self.pool: Pool | None = None if self._spans else first.parts.pool

    def check(self, subject: Subject) -> None:
        """Refuse an encoder that is not the one that heads learned on.

        Raises:
            BertVisionError: it is another.
        """
        expected = subject.run.weights
        if expected is not None and expected != self.weights:
            raise BertVisionError(
                f"{subject.run.name} was fitted on an encoder with fingerprint {expected}; the one here has "
                f"{self.weights}. Use the same weights."
            )

    def read(self, subjects: Sequence[Subject], tell: Tell) -> list[RunOutputs]:
        """The outputs of all models of each subject."""
        heads: dict[tuple[int, str], Head] = {}
        apart: dict[tuple[int, str], Snapshot] = {}
        for number, subject in enumerate(subjects):
            for name in subject.heads:
                head = self.load(subject, name)
                if head is not None:
                    heads[number, name] = head
                elif subject.run.own is not None:
                    apart[number, name] = subject.run.own
        parts = [part for part in (self._first.part, self._first.held_out) if part is not None]
        tell(f"encoding {self._first.split} for {in_words(len(heads) + len(apart), 'model')} …")
        by_part = [self._read(list(heads.values()), part, tell) for part in parts]
        read = dict(zip(heads, zip(*by_part, strict=True), strict=True))
        read |= {key: self._own(own, parts) for key, own in apart.items()}
        return [
            RunOutputs(self.weights, {name: ModelOutputs(*read[number, name]) for name in subject.heads})
            for number, subject in enumerate(subjects)
        ]

    def load(self, subject: Subject, name: str) -> Head | None:
        """A head of a subject, ready to read; None where its own output cannot read what heads read.

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
        return [merge_windows(task, part.windows, one) for one in found]

    def _states(self, part: Part, layers: range) -> States:
        if not self._in_memory:
            return StreamStates(self.encoder, part.windows, self._passes, layers)
        parts = self._first.parts
        texts = parts.texts(part)
        rows = encode_texts(self.encoder, texts, self._passes, pool=parts.pool, pairs=parts.pairs, layers=layers)
        return RowStates(rows, self.encoder.device, lowest=layers[0])

    def _own(self, own: Snapshot, parts: Sequence[Part]) -> tuple[Outputs, ...]:
        """What a snapshot's own output gives in a pass of its own: it was tuned on other rows than heads read."""
        shared, task = self._first.parts, self._first.parts.task
        if shared.separate:
            parts = [replace(shared, pairs="together").part(part.examples) for part in parts]
        windows = [part.windows for part in parts]
        name = self._first.run.request.encoder
        found = own_scores(own, self.encoder, windows, name=name, passes=self._passes, task=task)
        return tuple(merge_windows(task, cut, one) for cut, one in zip(windows, found, strict=True))
