"""Inference time: seconds of the encoder up to the last layer that a head needs, and seconds of the head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from bertvision.heads import Head
from bertvision.inference.stopwatch import least_seconds
from bertvision.runs.judging.read_subjects import SharedPass
from bertvision.runs.judging.subject import Subject
from bertvision.training.states import StateBatch

EXAMPLES = {"cpu": 16, "cuda": 256}
"""Number of examples that are timed, by device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceSeconds:
    """Measured seconds for a number of examples, the lowest of a few measurements each.

    Attributes:
        examples: number of examples.
        device: the device, `cpu` or `cuda`.
        encoder: seconds of the encoder up to each depth, without any head.
        heads: seconds of each head by name, without the encoder.
    """

    examples: int
    device: str
    encoder: dict[int, float]
    heads: dict[str, float]

    def total(self, name: str, depth: int) -> float | None:
        """Encoder and head together; None if the head was not timed."""
        return self.encoder[depth] + self.heads[name] if name in self.heads else None


@torch.inference_mode()
def measure_inference(shared: SharedPass, subject: Subject, heads: Mapping[str, Head]) -> InferenceSeconds:
    """Time the encoder up to every depth that a head needs and to its last layer, and every head by itself.

    Heads of one depth share the measurement of the encoder. The first examples of the split are used.
    """
    device = shared.encoder.device
    count = min(len(subject.part.examples), EXAMPLES[device.type])
    part = subject.parts.part(subject.part.examples.select(np.arange(count)))
    depth = shared.encoder.depth

    def encode(layers: range) -> list[StateBatch]:
        return [batch for _, batch in shared.batches(part, layers)]

    states = encode(range(depth + 1))  # also a warm-up: a first pass is slower, and is not timed
    head_seconds = {
        name: least_seconds(partial(_read, shared, head.eval(), states), device) for name, head in heads.items()
    }
    del states
    depths = sorted({head.depth for head in heads.values()} | {depth})
    encoder_seconds = {stop: least_seconds(partial(encode, range(stop, stop + 1)), device) for stop in depths}
    return InferenceSeconds(examples=count, device=device.type, encoder=encoder_seconds, heads=head_seconds)


def _read(shared: SharedPass, head: Head, states: Sequence[StateBatch]) -> None:
    with shared.autocast():
        for batch in states:
            batch.read(head, shared.pool)
