"""What runs left on disk: read once, checked, every file with a key by which its numbers are linked to it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertvision.errors import BertVisionError
from bertvision.heads.files import WEIGHTS
from bertvision.provenance import file_digest
from bertvision.report.document import slug
from bertvision.report.found import FileContent, Found, RunFacts
from bertvision.runs.analysing.analysis_record import AnalysisRecord
from bertvision.runs.fitting.fit import LEADERBOARD
from bertvision.runs.fitting.freeze_points import FORMAT as FREEZE_FORMAT
from bertvision.runs.fitting.freeze_points import FREEZE_POINTS
from bertvision.runs.folder import CONFIG, RESULT, RunFolder
from bertvision.runs.judging.ensemble_record import EnsembleRecord
from bertvision.runs.judging.evaluation_record import EvaluationRecord
from bertvision.runs.searching.search_request import BEST, TRIALS_FILE, TRIALS_FORMAT
from bertvision.runs.tuning.label_counts import FORMAT as LABELS_FORMAT
from bertvision.runs.tuning.label_counts import LABELS, PREDICTIONS
from bertvision.tasks.files import read_json

OF_A_ROW = {"head", "options", "lr", "seed", "fraction", "parameters", "seconds", "folder", "held_out", "metrics"}
"""What a row of a leaderboard has to say."""

OF_A_POINT = {"snapshot", "epochs", "own", "head", "held_out"}
"""What a snapshot among freeze points has to say."""

OF_A_TRIAL = {"trial", "state", "value", "parameters", "rungs", "seconds", "failure"}
"""What a trial of a search has to say."""

AGAIN = "Name runs of bertvision fit or bertvision tune, or searches."


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
    """The folder itself, and those of the runs in it where it holds several, or the best one of a search."""
    if (path / TRIALS_FILE).is_file():
        return [path, *(config.parent for config in path.glob(f"{BEST}/{CONFIG}"))]
    if (path / CONFIG).is_file() or (path / EnsembleRecord.FILE).is_file():
        return [path]
    several = sorted(config.parent for config in path.glob(f"*/{CONFIG}"))
    if not several:
        raise BertVisionError(f"{path} holds no run: {CONFIG} is not there. {AGAIN}")
    return [path, *several]


def _read(folder: Path, found: Found) -> None:
    if (folder / FREEZE_POINTS).is_file():
        _read_freeze(folder, found)
    if (folder / TRIALS_FILE).is_file():
        _read_search(folder, found)
        return
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
        found.evaluations.append(FileContent(key=key, run=record.run, path=path, content=record))
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
        found.ensembles.append(FileContent(key=key, run=joined.runs[0], path=path, content=joined))
    analyses = [*folder.glob(AnalysisRecord.FILE), *sorted(folder.glob(f"at-*/{AnalysisRecord.FILE}"))]
    for path in analyses if (folder / CONFIG).is_file() else []:
        analysis = AnalysisRecord.read(path.parent)
        told = {name: getattr(analysis, name) for name in ("run", "task", "split", "examples", "at", "seconds")}
        key = found.add("analysis", path, analysis.command, told, analysis.provenance)
        found.analyses.append(FileContent(key=key, run=analysis.run, path=path, content=analysis))


def _below(folder: Path, place: str, name: str) -> list[Path]:
    """Records of a kind below a run; what is half-written is hidden."""
    paths = sorted((folder / place).rglob(name))
    return [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def _read_run(folder: Path, found: Found) -> None:
    run = RunFolder(folder)
    request, config = run.request(), read_json(folder / CONFIG)
    result = read_json(folder / RESULT) if (folder / RESULT).is_file() else None
    if "space" in request:
        raise BertVisionError(f"{folder} is a search without a trial. Go on with it: its command once more.")
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
    found.freezes.append(FileContent(key=key, run=str(folder), path=path, content=table))


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
    found.labels.append(FileContent(key=key, run=str(folder), path=path, content=content))


def _read_search(folder: Path, found: Found) -> None:
    path = folder / TRIALS_FILE
    content = read_json(path)
    trials = content.get("trials") if isinstance(content, dict) and content.get("format") == TRIALS_FORMAT else None
    if not isinstance(trials, list) or not all(isinstance(t, dict) and t.keys() >= OF_A_TRIAL for t in trials):
        raise BertVisionError(
            f"{path} is no record of a search of format {TRIALS_FORMAT}. Make it again: its command once more."
        )
    where = content.get("provenance")
    facts = {name: content.get(name) for name in ("task", "kind", "encoder", "objective")}
    key = found.add("search", path, where.get("command") if isinstance(where, dict) else None, facts, where)
    asked = RunFolder(folder).request()
    found.searches.append(FileContent(key=key, run=str(folder), path=path, content={"data": asked["data"]} | content))


def _check_fresh(record: EvaluationRecord, folder: Path, path: Path) -> None:
    """Refuse an evaluation of heads that are others now."""
    for name, digest in record.fingerprints.heads.items():
        weights = folder / "heads" / name / WEIGHTS
        if weights.is_file() and file_digest(weights)[:16] != digest:
            raise BertVisionError(
                f"{path} is stale: head {name} had the fingerprint {digest} and has {file_digest(weights)[:16]} now. "
                f"Evaluate again: bertvision evaluate {record.run}"
            )
