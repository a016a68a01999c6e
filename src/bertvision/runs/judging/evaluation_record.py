"""EvaluationRecord: what an evaluation found, as one JSON file with where it comes from."""

from dataclasses import dataclass
from typing import Any, ClassVar

from bertvision.runs.judging.judge import ScoresAt
from bertvision.runs.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRow:
    """A head, an encoder's own output or an ensemble, and its scores.

    Attributes:
        name: name of its folder in the evaluation.
        head: the head's name; None for an ensemble.
        own: whether it is the encoder's own output.
        options: options of the head.
        seed: seed of the head's training; None where it has none of its own.
        parameters: parameters of the head.
        depth: the last layer that it needs.
        held_out: its main metric on held-out training examples; of questions F1 at its best threshold.
        scores: scores by the name of the threshold: `plain` where there is none, `zero`, `fitted` on held-out training
            questions, `best_on_split`, which has seen the answers.
        loss: the mean of the task's training loss on the split, no threshold considered; None of an
            ensemble, where it is not finite, and in records of before it was told.
    """

    name: str
    head: str | None
    own: bool
    options: dict[str, Any]
    seed: int | None
    parameters: int
    depth: int
    held_out: float | None
    scores: dict[str, ScoresAt]
    loss: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprints:
    """What outputs and thresholds depend on.

    Attributes:
        weights: fingerprint of the encoder.
        split: digest of the token windows that were judged by.
        held_out: digest of those of the held-out examples; None without any.
        heads: digest of every head's weights, by name.
        no_answer_share: share of questions without an answer that thresholds were fitted for; None in older records.
    """

    weights: str
    split: str
    held_out: str | None
    heads: dict[str, str]
    no_answer_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord(Record):
    """What an evaluation found.

    Attributes:
        run: what was evaluated: `RUN` or `RUN@0.3`.
        task: its name.
        kind: kind of the task.
        encoder: the one whose states were read.
        data: where the split comes from; None is the built-in set.
        split: dev, or another.
        examples: number of its examples.
        held_out_examples: number of training examples that were held out.
        resamples: draws of the intervals and tests.
        seed: seed of the draws.
        own: name of the encoder's own output, which heads are compared with; None without one.
        rows: every head and the encoder's own output, best first by held-out examples.
        fingerprints: what the outputs depend on.
        command: the command that repeats it.
        seconds: wall-clock seconds that it took.
        provenance: where it was made.
    """

    NAME: ClassVar[str] = "evaluation"
    FILE: ClassVar[str] = "evaluation.json"
    AGAIN: ClassVar[str] = "Evaluate again: bertvision evaluate RUN"

    run: str
    task: str
    kind: str
    encoder: str
    data: str | None
    split: str
    examples: int
    held_out_examples: int
    resamples: int
    seed: int
    own: str | None
    rows: list[EvaluatedRow]
    fingerprints: Fingerprints
    command: str
    seconds: float
    provenance: dict[str, Any]

    def row(self, name: str) -> EvaluatedRow:
        """The row of that name."""
        return next(row for row in self.rows if row.name == name)
