"""What answers cost: seconds of an encoder that stops at the last layer that a head needs, and of the head."""

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
"""Examples that are timed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceSeconds:
    """Measured seconds over some examples.

    Attributes:
        examples: number of examples.
        device: device that they ran on.
        encoder: seconds of the encoder up to each depth, without any head.
        heads: seconds of each head on states that are there, by name.
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
    """Time the encoder up to every depth that a head needs, and to its end, and every head.

    The encoder runs once for each depth, and not for each head. The first examples of the split are timed.
    """
    device = shared.encoder.device
    count = min(len(subject.part.examples), EXAMPLES[device.type])
    part = subject.parts.part(subject.part.examples.select(np.arange(count)))
    depth = shared.encoder.depth

    def encode(layers: range) -> list[StateBatch]:
        return [batch for _, batch in shared.batches(part, layers)]

    states = encode(range(depth + 1))  # the first pass is slower, and not timed
    alone = {name: least_seconds(partial(_read, shared, head.eval(), states), device) for name, head in heads.items()}
    del states
    depths = sorted({head.depth for head in heads.values()} | {depth})
    encoder = {stop: least_seconds(partial(encode, range(stop, stop + 1)), device) for stop in depths}
    return InferenceSeconds(examples=count, device=device.type, encoder=encoder, heads=alone)


def _read(shared: SharedPass, head: Head, states: Sequence[StateBatch]) -> None:
    with shared.autocast():
        for batch in states:
            batch.read(head, shared.pool)
