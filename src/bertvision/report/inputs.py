"""The results on disk that a report is made from: runs and contents of other files, each with the key of its record."""

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
    """The content of a file.

    Attributes:
        key: of its record.
        run: name of the run or search that it belongs to.
        path: path of the file.
        content: the record or JSON object in it.
    """

    key: str
    run: str
    path: Path
    content: T


@contextmanager
def reading(file: FileContent[Any], otherwise: str) -> Iterator[None]:
    """Context that turns a missing key in the JSON of a file into an error that names the file.

    `otherwise` is advice for the error message.

    Raises:
        BertVisionError: a key is missing.
    """
    try:
        yield
    except KeyError as error:
        raise BertVisionError(f"{file.path} cannot be read ({type(error).__name__}: {error}). {otherwise}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A finished run.

    Attributes:
        key: of its record.
        name: its folder, as the user named it.
        place: folder of its model card inside the report's folder `cards`.
        request: its options.
        provenance: see `bertvision.provenance.provenance`.
        result: content of its result file.
        leaderboard: rows of the leaderboard of a fit; empty for a tuned run.
        lines: parsed lines of its log.
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
        """True for a fit of heads, False for a tuned run."""
        return "heads" in self.request

    @property
    def metrics(self) -> Sequence[Mapping[str, Any]]:
        """Metrics of every row of the leaderboard, or the metrics of a tuned run, by name."""
        return [row["metrics"] for row in self.leaderboard] if self.is_fit else [self.result["metrics"]]


@dataclass(slots=True, kw_only=True)
class Contents:
    """Runs and contents of other files, by kind."""

    runs: list[RunFacts] = field(default_factory=list)
    evaluations: list[FileContent[EvaluationRecord]] = field(default_factory=list)
    ensembles: list[FileContent[EnsembleRecord]] = field(default_factory=list)
    analyses: list[FileContent[AnalysisRecord]] = field(default_factory=list)
    freezes: list[FileContent[dict[str, Any]]] = field(default_factory=list)
    labels: list[FileContent[dict[str, Any]]] = field(default_factory=list)
    searches: list[FileContent[dict[str, Any]]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ReportInputs(Contents):
    """Everything that a report is made from, in the order in which the user named it."""

    records: list[Record] = field(default_factory=list)

    def add(self, kind: str, path: Path, command: str | None, facts: Mapping[str, object], where: Any) -> str:  # noqa: ANN401 - whatever a file says
        """Add a record; returns its key. `where` is its provenance, which is ignored if it is not a dict."""
        key = f"r{len(self.records) + 1}"
        texts = {name: str(value) for name, value in facts.items() if value is not None}
        provenance = where if isinstance(where, dict) else {}
        record = Record(key=key, kind=kind, path=str(path), command=command, facts=texts, provenance=provenance)
        self.records.append(record)
        return key
