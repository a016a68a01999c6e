"""EnsembleRecord: members and scores of an ensemble as one JSON file, with provenance."""

from dataclasses import dataclass
from typing import Any, ClassVar

from bertvision.runs.judging.evaluation_record import EvaluatedRow
from bertvision.runs.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleMember:
    """A member of an ensemble.

    Attributes:
        weight: its weight; all weights add up to 1, and that of a member which was not chosen is 0.
        encoder: fingerprint of its encoder.
        row: the member alone, with its scores.
    """

    weight: float
    encoder: str
    row: EvaluatedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleRecord(Record):
    """An ensemble, and its scores.

    Attributes:
        runs: the runs of its members.
        how: how members were combined: `max`, `mean` or `greedy`.
        task: name of the task.
        kind: kind of the task.
        data: where the split's files are; None is the built-in set.
        split: name of the split.
        examples: number of examples in the split.
        held_out_examples: number of training examples that were held out.
        resamples: bootstrap resamples of the intervals and tests.
        seed: seed of the resampling.
        against: the member that is best on held-out examples, of equal ones (all, if nothing was held out) the
            smallest; all others and the ensemble are compared with it.
        steps: held-out score after each step of a greedy choice; empty for others.
        ensemble: the ensemble with its scores.
        members: all members, best first by held-out score.
        command: the command that makes it again.
        seconds: wall-clock seconds that it took.
        provenance: conditions under which it was made; see `provenance`.
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
        """The members whose weight is not 0."""
        return [member for member in self.members if member.weight > 0.0]
