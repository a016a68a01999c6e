"""EvaluationRecord: the scores of a run's models on a split as one JSON file, with provenance."""

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
        options: options of the head; of an ensemble, how it was combined.
        seed: seed of the head's training; None for an own output or an ensemble.
        parameters: number of the head's parameters; of an ensemble, those of all members that count.
        depth: the last layer that it needs.
        held_out: its main metric on held-out training examples, for questions F1 at the best threshold; None without
            any, or if it is not defined.
        scores: scores by the name of the threshold: `plain` for tasks without one, `zero`, `fitted` on held-out
            training questions, and `best_on_split`, which was chosen by the gold answers and so is too good.
        loss: mean training loss of the task on the split; None for an ensemble, if it is not finite, and in records
            that are older than this field.
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
    """What saved outputs and thresholds depend on: if any of it differs, they are computed again.

    Attributes:
        weights: fingerprint of the encoder.
        split: digest of the token windows of the split.
        held_out: digest of the token windows of the held-out examples; None without any.
        heads: digest of every head's weights, by name.
        no_answer_share: the share of questions without an answer that thresholds were fitted for; None in older
            records.
    """

    weights: str
    split: str
    held_out: str | None
    heads: dict[str, str]
    no_answer_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord(Record):
    """The scores of a run's models on a split.

    Attributes:
        run: what was evaluated: `RUN` or `RUN@0.3`.
        task: name of the task.
        kind: kind of the task.
        encoder: the encoder whose states were read.
        data: where the split's files are; None is the built-in set.
        split: name of the split.
        examples: number of examples in the split.
        held_out_examples: number of training examples that were held out.
        resamples: bootstrap resamples of the intervals and tests.
        seed: seed of the resampling.
        own: name of the encoder's own output, which heads are compared with; None without one.
        rows: every head and the encoder's own output, best first by held-out score.
        fingerprints: what saved outputs depend on.
        command: the command that repeats it.
        seconds: wall-clock seconds that it took.
        provenance: conditions under which it was made; see `provenance`.
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
        """The row of that name, which must be there."""
        return next(row for row in self.rows if row.name == name)
