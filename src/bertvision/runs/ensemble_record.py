"""EnsembleRecord: what an ensemble is made of and what it is worth, as one JSON file with where it comes from."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertvision.atomic import write_json
from bertvision.runs.evaluation_record import FORMAT, EvaluatedRow, read_record

ENSEMBLE_FILE = "ensemble.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleMember:
    """A member of an ensemble.

    Attributes:
        weight: of the member, all of which add up to 1; 0 for one that was not chosen.
        encoder: fingerprint of its encoder.
        row: what it is worth alone.
    """

    weight: float
    encoder: str
    row: EvaluatedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleRecord:
    """An ensemble, and its scores.

    Attributes:
        runs: that its members are of.
        how: members became one.
        task: its name.
        kind: of the task.
        data: where the split comes from; None is the built-in set.
        split: dev, or another.
        examples: how many it has.
        held_out_examples: how many training examples were held out.
        resamples: draws of the intervals and tests.
        seed: of the draws.
        against: the member that is best on held-out examples, which the others are compared with.
        steps: score on held-out examples after each step of a greedy choice.
        ensemble: what it is worth.
        members: best first by held-out examples.
        command: that repeats it.
        seconds: it took.
        provenance: where it was made.
    """

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

    def as_json(self) -> dict[str, Any]:
        """What its file holds."""
        return {"format": FORMAT, "record": "ensemble", **asdict(self)}

    def save(self, folder: Path) -> None:
        """Write it into a folder.

        Raises:
            BertVisionError: it cannot be written.
        """
        write_json(folder / ENSEMBLE_FILE, self.as_json())


def read_ensemble(folder: Path) -> EnsembleRecord:
    """The record in the folder of an ensemble.

    Raises:
        BertVisionError: there is none, or it is of another format.
    """
    return read_record(
        folder / ENSEMBLE_FILE, EnsembleRecord, record="ensemble", again="Make it again: bertvision ensemble RUN"
    )
