"""The outputs of finished runs: one pass of an encoder over a split for the heads of all runs that share it."""

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
    """The outputs of every subject's models, in order.

    Subjects with the same encoder, windows and settings share one pass of the encoder.

    Raises:
        BertVisionError: an encoder or head cannot be loaded, or the encoder is not the one that heads were fitted on.
    """
    outputs: dict[int, RunOutputs] = {}
    for numbers in _groups(subjects):
        group = [subjects[number] for number in numbers]
        tell(f"reading {group[0].run.request.encoder} …")
        shared = SharedPass(group[0], device)
        for subject in group:
            shared.check(subject)
        outputs |= zip(numbers, shared.read(group, tell), strict=True)
    return [outputs[number] for number in range(len(subjects))]


def _groups(subjects: Sequence[Subject]) -> Iterable[list[int]]:
    """The numbers of the subjects that share a pass, group by group."""
    groups: dict[object, list[int]] = {}
    for number, subject in enumerate(subjects):
        request, parts = subject.run.request, subject.parts
        reads_rows = request.reads_rows(parts.task)
        key = request.encoder, subject.digests, parts.pool, parts.pairs, reads_rows, request.dtype, request.task
        groups.setdefault(key, []).append(number)
    return groups.values()


@final
class SharedPass:
    """A frozen encoder, and the windows of the subjects that share it.

    Attributes:
        encoder: the encoder.
        weights: its fingerprint.
        pool: how tokens are pooled before heads read them; None for spans, where heads read every token.
    """

    def __init__(self, first: Subject, device: Device) -> None:
        """Load the encoder of the first subject.

        Raises:
            BertVisionError: it cannot be loaded.
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
        """Check that a subject's heads were fitted on this encoder.

        Raises:
            BertVisionError: the fingerprints differ.
        """
        expected = subject.run.weights
        if expected is not None and expected != self.weights:
            raise BertVisionError(
                f"{subject.run.name} was fitted on an encoder with fingerprint {expected}; the one here has "
                f"{self.weights}. Use the same weights."
            )

    def read(self, subjects: Sequence[Subject], tell: Tell) -> list[RunOutputs]:
        """The outputs of every model of each subject on the split and the held-out examples."""
        heads: dict[tuple[int, str], Head] = {}
        own_passes: dict[tuple[int, str], Snapshot] = {}  # own outputs that need a pass of their own
        for number, subject in enumerate(subjects):
            for name in subject.heads:
                head = self.load(subject, name)
                if head is not None:
                    heads[number, name] = head
                elif subject.run.own is not None:
                    own_passes[number, name] = subject.run.own
        parts = [part for part in (self._first.part, self._first.held_out) if part is not None]
        tell(f"encoding {self._first.split} for {in_words(len(heads) + len(own_passes), 'model')} …")
        by_part = [self._read(list(heads.values()), part, tell) for part in parts]
        outputs = dict(zip(heads, zip(*by_part, strict=True), strict=True))
        outputs |= {key: self._read_own(own, parts) for key, own in own_passes.items()}
        return [
            RunOutputs(self.weights, {name: ModelOutputs(*outputs[number, name]) for name in subject.heads})
            for number, subject in enumerate(subjects)
        ]

    def load(self, subject: Subject, name: str) -> Head | None:
        """A head of a subject, on the encoder's device; None for an own output that needs a pass of its own.

        Raises:
            BertVisionError: the head is missing or damaged, or does not fit the encoder.
        """
        own = subject.run.own if name == OWN_OUTPUT else None
        shape = None if own is not None else head_shape(self.encoder, self._first.parts)
        head = load_head(subject.head_folder(name), shape=shape)
        return head.to(self.encoder.device) if own is None or self._shares(own, head) else None

    def batches(self, part: Part, layers: range) -> Iterator[tuple[IntArray, StateBatch]]:
        """The batches of a part: the numbers of their windows, and the states of a range of layers."""
        states = self._states(part, layers)
        for rows in frozen_batches(part.windows.sizes, self.encoder.device):
            yield rows, states.batch(rows)

    def autocast(self) -> torch.autocast:
        """The context in which heads compute: bfloat16 autocast, where the encoder runs in bfloat16."""
        return torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=self._passes.bf16)

    def _shares(self, own: Snapshot, head: Head) -> bool:
        """Whether an own output can read the same inputs as the fitted heads."""
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
        outputs = read_heads(
            heads,
            self._states(part, layers_read(heads)),
            part.windows,
            task=task,
            pool=self._first.parts.pool,
            device=self.encoder.device,
            bf16=self._passes.bf16,
            tell=tell,
        )
        return [merge_windows(task, part.windows, each) for each in outputs]

    def _states(self, part: Part, layers: range) -> States:
        if not self._in_memory:
            return StreamStates(self.encoder, part.windows, self._passes, layers)
        parts = self._first.parts
        texts = parts.texts(part)
        rows = encode_texts(self.encoder, texts, self._passes, pool=parts.pool, pairs=parts.pairs, layers=layers)
        return RowStates(rows, self.encoder.device, lowest=layers[0])

    def _read_own(self, own: Snapshot, parts: Sequence[Part]) -> tuple[Outputs, ...]:
        """The own output of a snapshot on each part, in a pass of its own, with the inputs that it was tuned on."""
        shared, task = self._first.parts, self._first.parts.task
        if shared.separate:
            parts = [replace(shared, pairs="together").part(part.examples) for part in parts]
        splits = [part.windows for part in parts]
        name = self._first.run.request.encoder
        outputs = own_scores(own, self.encoder, splits, name=name, passes=self._passes, task=task)
        return tuple(merge_windows(task, windows, each) for windows, each in zip(splits, outputs, strict=True))
