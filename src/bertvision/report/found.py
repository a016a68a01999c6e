"""What was found on disk: runs, and what other files say, each with the key of its record."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from bertvision.errors import BertVisionError
from bertvision.report.document import Record
from bertvision.runs.analysing.analysis_record import AnalysisRecord
from bertvision.runs.judging.ensemble_record import EnsembleRecord
from bertvision.runs.judging.evaluation_record import EvaluationRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent(Generic[T]):
    """What a file says.

    Attributes:
        key: key of its record.
        run: name of the run it belongs to.
        path: path of the file.
        content: what it says.
    """

    key: str
    run: str
    path: Path
    content: T


@contextmanager
def reading(found: FileContent[Any], again: str) -> Iterator[None]:
    """Say of a file without a type of its own what it lacks, and how it is made again.

    Raises:
        BertVisionError: it lacks something.
    """
    try:
        yield
    except KeyError as error:
        raise BertVisionError(f"{found.path} cannot be read ({type(error).__name__}: {error}). {again}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A finished run.

    Attributes:
        key: key of its record.
        name: its folder, as it was named.
        place: a name for its own files in the report.
        request: what it was asked for.
        provenance: where it was made.
        result: what its end says.
        leaderboard: leaderboard of a fit; empty for a tuned run.
        lines: lines of its log.
    """

    key: str
    name: str
    place: str
    request: Mapping[str, Any]
    provenance: Mapping[str, Any]
    result: Mapping[str, Any]
    leaderboard: Sequence[Mapping[str, Any]]
    lines: Sequence[Mapping[str, Any]]

    @property
    def is_fit(self) -> bool:
        """Whether it is a fit of heads, and not a tuned run."""
        return "heads" in self.request

    @property
    def metrics(self) -> Sequence[Mapping[str, Any]]:
        """Every set of metrics that it logged."""
        return [row["metrics"] for row in self.leaderboard] if self.is_fit else [self.result["metrics"]]


@dataclass(slots=True, kw_only=True)
class Findings:
    """Runs, and what other files say, of each kind."""

    runs: list[RunFacts] = field(default_factory=list)
    evaluations: list[FileContent[EvaluationRecord]] = field(default_factory=list)
    ensembles: list[FileContent[EnsembleRecord]] = field(default_factory=list)
    analyses: list[FileContent[AnalysisRecord]] = field(default_factory=list)
    freezes: list[FileContent[dict[str, Any]]] = field(default_factory=list)
    labels: list[FileContent[dict[str, Any]]] = field(default_factory=list)
    searches: list[FileContent[dict[str, Any]]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Found(Findings):
    """All that was found, in the order in which it was named."""

    records: list[Record] = field(default_factory=list)

    def add(self, kind: str, path: Path, command: str | None, facts: Mapping[str, object], where: Any) -> str:  # noqa: ANN401 - whatever a file says
        """Keep a record, and give it a key."""
        key = f"r{len(self.records) + 1}"
        told = {name: str(value) for name, value in facts.items() if value is not None}
        provenance = where if isinstance(where, dict) else {}
        record = Record(key=key, kind=kind, path=str(path), command=command, facts=told, provenance=provenance)
        self.records.append(record)
        return key
