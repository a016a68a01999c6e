"""What runs left on disk: read once, checked, every file with a key by which its numbers are linked to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from bertvision.errors import BertVisionError
from bertvision.heads.files import WEIGHTS
from bertvision.provenance import file_digest
from bertvision.report.document import Record, slug
from bertvision.runs.analysis_record import AnalysisRecord
from bertvision.runs.ensemble_record import EnsembleRecord
from bertvision.runs.evaluation_record import EvaluationRecord
from bertvision.runs.fit import LEADERBOARD
from bertvision.runs.folder import CONFIG, RESULT, RunFolder
from bertvision.runs.freeze_points import FORMAT as FREEZE_FORMAT
from bertvision.runs.freeze_points import FREEZE_POINTS
from bertvision.runs.label_counts import FORMAT as LABELS_FORMAT
from bertvision.runs.label_counts import LABELS, PREDICTIONS
from bertvision.tasks.files import read_json

T = TypeVar("T")

OF_A_ROW = {"head", "options", "lr", "seed", "fraction", "parameters", "seconds", "folder", "held_out", "metrics"}
"""What a row of a leaderboard has to say."""

OF_A_POINT = {"snapshot", "epochs", "own", "head", "held_out"}
"""What a snapshot among freeze points has to say."""

AGAIN = "Name runs of bertvision fit or bertvision tune."


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced(Generic[T]):
    """What a file says.

    Attributes:
        key: of its record.
        run: name of the run it belongs to.
        path: of the file.
        content: what it says.
    """

    key: str
    run: str
    path: Path
    content: T


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A finished run.

    Attributes:
        key: of its record.
        name: its folder, as it was named.
        place: a name for its own files in the report.
        request: what it was asked for.
        provenance: where it was made.
        result: what its end says.
        leaderboard: of a fit; empty for a tuned run.
        lines: of its log.
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


@dataclass(slots=True)
class Found:
    """All that was found, in the order in which it was named."""

    runs: list[RunFacts] = field(default_factory=list)
    evaluations: list[Sourced[EvaluationRecord]] = field(default_factory=list)
    ensembles: list[Sourced[EnsembleRecord]] = field(default_factory=list)
    analyses: list[Sourced[dict[str, Any]]] = field(default_factory=list)
    freezes: list[Sourced[dict[str, Any]]] = field(default_factory=list)
    labels: list[Sourced[dict[str, Any]]] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)

    def add(self, kind: str, path: Path, command: str | None, facts: Mapping[str, object], where: Any) -> str:  # noqa: ANN401 - whatever a file says
        """Keep a record, and give it a key."""
        key = f"r{len(self.records) + 1}"
        told = {name: str(value) for name, value in facts.items() if value is not None}
        provenance = where if isinstance(where, dict) else {}
        record = Record(key=key, kind=kind, path=str(path), command=command, facts=told, provenance=provenance)
        self.records.append(record)
        return key


def read_runs(names: Iterable[str | Path]) -> Found:
    """Everything that is told by runs, by folders of several runs, and by folders of ensembles.

    Raises:
        BertVisionError: no run is named, one is not there or not finished, or a record is broken or stale.
    """
    found = Found()
    seen: set[Path] = set()
    for name in names:
        for folder in _folders(Path(name)):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                _read(folder, found)
    if not seen:
        raise BertVisionError(f"no run was named, so there is nothing to report. {AGAIN}")
    return found


def _folders(path: Path) -> list[Path]:
    """The folder itself, and those of the runs in it where it holds several."""
    if (path / CONFIG).is_file() or (path / EnsembleRecord.FILE).is_file():
        return [path]
    several = sorted(config.parent for config in path.glob(f"*/{CONFIG}"))
    if not several:
        raise BertVisionError(f"{path} holds no run: {CONFIG} is not there. {AGAIN}")
    return [path, *several]


def _read(folder: Path, found: Found) -> None:
    if (folder / FREEZE_POINTS).is_file():
        _read_freeze(folder, found)
    if (folder / CONFIG).is_file():
        _read_run(folder, found)
        if (folder / LABELS).is_file():
            _read_labels(folder, found)
    for path in _below(folder, "evaluation", EvaluationRecord.FILE):
        record = EvaluationRecord.read(path.parent)
        _check_fresh(record, folder, path)
        facts = {
            "run": record.run,
            "task": record.task,
            "split": f"{record.split}, {record.examples:,} examples",
            "held out": f"{record.held_out_examples:,} training examples",
            "intervals": f"{record.resamples:,} resamples, seed {record.seed}",
            "encoder": f"{record.encoder}, weights {record.fingerprints.weights}",
            "windows": record.fingerprints.split,
            "seconds": record.seconds,
        }
        key = found.add("evaluation", path, record.command, facts, record.provenance)
        found.evaluations.append(Sourced(key=key, run=record.run, path=path, content=record))
    ensembles = [folder / EnsembleRecord.FILE] if (folder / EnsembleRecord.FILE).is_file() else []
    for path in [*ensembles, *_below(folder, "ensembles", EnsembleRecord.FILE)]:
        joined = EnsembleRecord.read(path.parent)
        facts = {
            "runs": ", ".join(joined.runs),
            "task": joined.task,
            "split": f"{joined.split}, {joined.examples:,} examples",
            "intervals": f"{joined.resamples:,} resamples, seed {joined.seed}",
            "seconds": joined.seconds,
        }
        key = found.add("ensemble", path, joined.command, facts, joined.provenance)
        found.ensembles.append(Sourced(key=key, run=joined.runs[0], path=path, content=joined))
    analyses = [*folder.glob(AnalysisRecord.FILE), *sorted(folder.glob(f"at-*/{AnalysisRecord.FILE}"))]
    for path in analyses if (folder / CONFIG).is_file() else []:
        content = AnalysisRecord.read_content(path.parent)
        told = {name: content.get(name) for name in ("run", "task", "split", "examples", "at", "seconds")}
        key = found.add("analysis", path, content.get("command"), told, content.get("provenance"))
        found.analyses.append(Sourced(key=key, run=str(content.get("run", folder)), path=path, content=content))


def _below(folder: Path, place: str, name: str) -> list[Path]:
    """Records of a kind below a run; what is half-written is hidden."""
    paths = sorted((folder / place).rglob(name))
    return [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def _read_run(folder: Path, found: Found) -> None:
    run = RunFolder(folder)
    request, config = run.request(), read_json(folder / CONFIG)
    result = read_json(folder / RESULT) if (folder / RESULT).is_file() else None
    if result is None:
        raise BertVisionError(f"{folder} is not finished. Go on with it: its command with --resume.")
    fit = "heads" in request
    leaderboard = _leaderboard(folder / LEADERBOARD) if fit else []
    if not isinstance(result, dict) or not (fit or isinstance(result.get("metrics"), dict)):
        raise BertVisionError(f"{folder / RESULT} tells no metrics. Tune again with another --out.")
    where = config.get("provenance")
    provenance = where if isinstance(where, dict) else {}
    asked = {name: value for name, value in request.items() if name not in ("heads", "task", "encoder")}
    facts = {
        "task": request.get("task"),
        "encoder": f"{request.get('encoder')}, weights {config.get('weights')}",
        "heads": f"{len(request['heads'])} asked for, {len(leaderboard)} kept" if fit else None,
        "asked for": in_words(asked),
    }
    path = folder / (LEADERBOARD if fit else RESULT)
    key = found.add("fit" if fit else "tuned run", path, provenance.get("command"), facts, provenance)
    found.runs.append(
        RunFacts(
            key=key,
            name=str(folder),
            place=slug(str(folder), {other.place for other in found.runs}),
            request=request,
            provenance=provenance,
            result=result,
            leaderboard=leaderboard,
            lines=run.lines(),
        )
    )


def in_words(value: Any) -> str:  # noqa: ANN401 - whatever a request holds
    """A value of a request in words; empty where nothing was asked for."""
    match value:
        case None | False:
            return ""
        case dict():
            return ", ".join(f"{name} {told}" for name, one in value.items() if (told := in_words(one)))
        case list():
            return ", ".join(in_words(one) for one in value)
        case _:
            return str(value)


def _leaderboard(path: Path) -> list[dict[str, Any]]:
    rows = read_json(path)
    if not isinstance(rows, list):
        raise BertVisionError(f"{path} holds no list. Fit again with another --out.")
    for number, row in enumerate(rows):
        missing = OF_A_ROW - (row.keys() if isinstance(row, dict) else set())
        if missing or not isinstance(row["metrics"], dict):
            lacks = ", ".join(sorted(missing)) or "metrics by name"
            raise BertVisionError(f"{path}: row {number} lacks {lacks}. Fit again with another --out.")
    return rows


def _read_freeze(folder: Path, found: Found) -> None:
    path = folder / FREEZE_POINTS
    table = read_json(path)
    points = table.get("points") if isinstance(table, dict) and table.get("format") == FREEZE_FORMAT else None
    if not isinstance(points, list) or not all(isinstance(p, dict) and p.keys() >= OF_A_POINT for p in points):
        raise BertVisionError(
            f"{path} is no table of freeze points of format {FREEZE_FORMAT}. Fit again: bertvision fit --snapshots"
        )
    facts = {name: table.get(name) for name in ("run", "task", "schedule", "tolerance")}
    key = found.add("freeze points", path, None, facts, None)
    found.freezes.append(Sourced(key=key, run=str(folder), path=path, content=table))


def _read_labels(folder: Path, found: Found) -> None:
    """What a run for several tasks says about its labels, with what it predicted."""
    run, path = found.runs[-1], folder / LABELS
    counts = read_json(path)
    if not isinstance(counts, dict) or counts.get("format") != LABELS_FORMAT:
        raise BertVisionError(f"{path} has another format than {LABELS_FORMAT}. Make it again: bertvision multitask")
    content = {
        "task": run.request["task"],
        "data": run.request.get("data"),
        "tasks": counts.get("tasks"),
        "predictions": {one.stem: read_json(one) for one in sorted((folder / PREDICTIONS).glob("*.json"))},
    }
    key = found.add("labels", path, run.provenance.get("command"), {"task": content["task"]}, run.provenance)
    found.labels.append(Sourced(key=key, run=str(folder), path=path, content=content))


def _check_fresh(record: EvaluationRecord, folder: Path, path: Path) -> None:
    """Refuse an evaluation of heads that are others now."""
    for name, digest in record.fingerprints.heads.items():
        weights = folder / "heads" / name / WEIGHTS
        if weights.is_file() and file_digest(weights)[:16] != digest:
            raise BertVisionError(
                f"{path} is stale: head {name} had the fingerprint {digest} and has {file_digest(weights)[:16]} now. "
                f"Evaluate again: bertvision evaluate {record.run}"
            )
