"""EnsembleRecord: what an ensemble is made of and what it is worth, as one JSON file with where it comes from."""

from dataclasses import dataclass
from typing import Any, ClassVar

from bertvision.runs.judging.evaluation_record import EvaluatedRow
from bertvision.runs.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleMember:
    """A member of an ensemble.

    Attributes:
        weight: weight of the member, all of which add up to 1; 0 for one that was not chosen.
        encoder: fingerprint of its encoder.
        row: what it is worth alone.
    """

    weight: float
    encoder: str
    row: EvaluatedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleRecord(Record):
    """An ensemble, and its scores.

    Attributes:
        runs: runs that the members come from.
        how: how members were joined.
        task: its name.
        kind: kind of the task.
        data: where the split comes from; None is the built-in set.
        split: dev, or another.
        examples: number of its examples.
        held_out_examples: number of training examples that were held out.
        resamples: draws of the intervals and tests.
        seed: seed of the draws.
        against: the member that is best on held-out examples, which the others are compared with.
        steps: score on held-out examples after each step of a greedy choice.
        ensemble: what it is worth.
        members: best first by held-out examples.
        command: the command that repeats it.
        seconds: wall-clock seconds that it took.
        provenance: where it was made.
    """

    NAME: ClassVar[str] = "ensemble"
    FILE: ClassVar[str] = "ensemble.json"
    AGAIN: ClassVar[str] = "Make it again: bertvision ensemble RUN"

    runs: list[str]
    how: str
    task: str
    kind: str
    data: str | None
    split: str
    examples: int
    held_out_examples: int
    resamples: int
    seed: int
    against: str
    steps: list[float]
    ensemble: EvaluatedRow
    members: list[EnsembleMember]
    command: str
    seconds: float
    provenance: dict[str, Any]

    @property
    def used(self) -> list[EnsembleMember]:
        """Members that count."""
        return [member for member in self.members if member.weight > 0.0]
