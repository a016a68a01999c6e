"""read_runs: read and check the files of finished runs; every file gets a record that numbers are linked to."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertvision.errors import BertVisionError
from bertvision.heads.files import WEIGHTS
from bertvision.provenance import file_digest
from bertvision.report.document import slug
from bertvision.report.inputs import FileContent, ReportInputs, RunFacts
from bertvision.runs.analysing.analysis_record import AnalysisRecord
from bertvision.runs.fitting.fit import LEADERBOARD
from bertvision.runs.fitting.freeze_points import FORMAT as FREEZE_FORMAT
from bertvision.runs.fitting.freeze_points import FREEZE_POINTS
from bertvision.runs.folder import CONFIG, RESULT, RunFolder
from bertvision.runs.judging.ensemble_record import EnsembleRecord
from bertvision.runs.judging.evaluation_record import EvaluationRecord
from bertvision.runs.searching.glue import GLUE_FILE
from bertvision.runs.searching.search_request import BEST, TRIALS_FILE, TRIALS_FORMAT
from bertvision.runs.tuning.label_counts import FORMAT as LABELS_FORMAT
from bertvision.runs.tuning.label_counts import LABELS, PREDICTIONS
from bertvision.tasks.files import read_json

ROW_KEYS = {"head", "options", "lr", "seed", "fraction", "parameters", "seconds", "folder", "held_out", "metrics"}
"""Required keys of a row of a leaderboard."""

POINT_KEYS = {"snapshot", "epochs", "own", "head", "held_out"}
"""Required keys of a snapshot in a file of freeze points."""

TRIAL_KEYS = {"trial", "state", "value", "parameters", "rungs", "seconds", "failure"}
"""Required keys of a trial of a search."""

HINT = "Name runs of bertvision fit or bertvision tune, or searches."


def read_runs(names: Iterable[str | Path]) -> ReportInputs:
    """Read runs, searches, ensembles, and folders with several runs; each folder is read once.

    Raises:
        BertVisionError: no run is named, a run is missing or not finished, or a record is damaged or stale.
    """
    inputs = ReportInputs()
    seen: set[Path] = set()
    for name in names:
        for folder in _folders(Path(name)):
            if folder.resolve() not in seen:
                seen.add(folder.resolve())
                _read(folder, inputs)
    if not seen:
        raise BertVisionError(f"no run was named, so there is nothing to report. {HINT}")
    return inputs


def _folders(path: Path) -> list[Path]:
    """The folder itself; with the best run of a search, or with the runs in a folder of several."""
    if (path / TRIALS_FILE).is_file():
        return [path, *(config.parent for config in path.glob(f"{BEST}/{CONFIG}"))]
    if (path / GLUE_FILE).is_file():
        return sorted(config.parent for config in path.glob(f"*/*/{CONFIG}"))
    if (path / CONFIG).is_file() or (path / EnsembleRecord.FILE).is_file():
        return [path]
    runs = sorted(config.parent for config in path.glob(f"*/{CONFIG}"))
    if not runs:
        raise BertVisionError(f"{path} holds no run: {CONFIG} is not there. {HINT}")
    return [path, *runs]


def _read(folder: Path, inputs: ReportInputs) -> None:
    """Read a folder: freeze points, a search, or a run with its labels, evaluations, ensembles and analyses."""
    if (folder / FREEZE_POINTS).is_file():
        _read_freeze(folder, inputs)
    if (folder / TRIALS_FILE).is_file():
        _read_search(folder, inputs)
        return
    if (folder / CONFIG).is_file():
        _read_run(folder, inputs)
        if (folder / LABELS).is_file():
            _read_labels(folder, inputs)
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
        key = inputs.add("evaluation", path, record.command, facts, record.provenance)
        inputs.evaluations.append(FileContent(key=key, run=record.run, path=path, content=record))
    ensembles = [folder / EnsembleRecord.FILE] if (folder / EnsembleRecord.FILE).is_file() else []
    for path in [*ensembles, *_below(folder, "ensembles", EnsembleRecord.FILE)]:
        ensemble = EnsembleRecord.read(path.parent)
        facts = {
            "runs": ", ".join(ensemble.runs),
            "task": ensemble.task,
            "split": f"{ensemble.split}, {ensemble.examples:,} examples",
            "intervals": f"{ensemble.resamples:,} resamples, seed {ensemble.seed}",
            "seconds": ensemble.seconds,
        }
        key = inputs.add("ensemble", path, ensemble.command, facts, ensemble.provenance)
        inputs.ensembles.append(FileContent(key=key, run=ensemble.runs[0], path=path, content=ensemble))
    analyses = [*folder.glob(AnalysisRecord.FILE), *sorted(folder.glob(f"at-*/{AnalysisRecord.FILE}"))]
    for path in analyses if (folder / CONFIG).is_file() else []:
        analysis = AnalysisRecord.read(path.parent)
        facts = {name: getattr(analysis, name) for name in ("run", "task", "split", "examples", "at", "seconds")}
        key = inputs.add("analysis", path, analysis.command, facts, analysis.provenance)
        inputs.analyses.append(FileContent(key=key, run=analysis.run, path=path, content=analysis))


def _below(folder: Path, place: str, name: str) -> list[Path]:
    """Record files of a kind below a run, without those in hidden folders, which are still being written."""
    paths = sorted((folder / place).rglob(name))
    return [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]


def _read_run(folder: Path, inputs: ReportInputs) -> None:
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
    stored = config.get("provenance")
    provenance = stored if isinstance(stored, dict) else {}
    options = {name: value for name, value in request.items() if name not in ("heads", "task", "encoder")}
    facts = {
        "task": request.get("task"),
        "encoder": f"{request.get('encoder')}, weights {config.get('weights')}",
        "heads": f"{len(request['heads'])} asked for, {len(leaderboard)} kept" if fit else None,
        "asked for": request_text(options),
    }
    path = folder / (LEADERBOARD if fit else RESULT)
    key = inputs.add("fit" if fit else "tuned run", path, provenance.get("command"), facts, provenance)
    inputs.runs.append(
        RunFacts(
            key=key,
            name=str(folder),
            place=slug(str(folder), {other.place for other in inputs.runs}),
            request=request,
            provenance=provenance,
            result=result,
            leaderboard=leaderboard,
            lines=run.lines(),
        )
    )


def request_text(value: Any) -> str:  # noqa: ANN401 - whatever a request holds
    """A value in a request as text; empty for None and False."""
    match value:
        case None | False:
            return ""
        case dict():
            return ", ".join(f"{name} {text}" for name, item in value.items() if (text := request_text(item)))
        case list():
            return ", ".join(request_text(item) for item in value)
        case _:
            return str(value)


def _leaderboard(path: Path) -> list[dict[str, Any]]:
    rows = read_json(path)
    if not isinstance(rows, list):
        raise BertVisionError(f"{path} holds no list. Fit again with another --out.")
    for number, row in enumerate(rows):
        missing = ROW_KEYS - (row.keys() if isinstance(row, dict) else set())
        if missing or not isinstance(row["metrics"], dict):
            lacks = ", ".join(sorted(missing)) or "metrics by name"
            raise BertVisionError(f"{path}: row {number} lacks {lacks}. Fit again with another --out.")
    return rows


def _read_freeze(folder: Path, inputs: ReportInputs) -> None:
    path = folder / FREEZE_POINTS
    table = read_json(path)
    points = table.get("points") if isinstance(table, dict) and table.get("format") == FREEZE_FORMAT else None
    if not isinstance(points, list) or not all(isinstance(p, dict) and p.keys() >= POINT_KEYS for p in points):
        raise BertVisionError(
            f"{path} is no table of freeze points of format {FREEZE_FORMAT}. Fit again: bertvision fit --snapshots"
        )
    facts = {name: table.get(name) for name in ("run", "task", "schedule", "tolerance")}
    key = inputs.add("freeze points", path, None, facts, None)
    inputs.freezes.append(FileContent(key=key, run=str(folder), path=path, content=table))


def _read_labels(folder: Path, inputs: ReportInputs) -> None:
    """Read the label counts and the predictions of the last run, which is for several tasks."""
    run, path = inputs.runs[-1], folder / LABELS
    counts = read_json(path)
    if not isinstance(counts, dict) or counts.get("format") != LABELS_FORMAT:
        raise BertVisionError(f"{path} has another format than {LABELS_FORMAT}. Make it again: bertvision multitask")
    content = {
        "task": run.request["task"],
        "data": run.request.get("data"),
        "tasks": counts.get("tasks"),
        "predictions": {file.stem: read_json(file) for file in sorted((folder / PREDICTIONS).glob("*.json"))},
    }
    key = inputs.add("labels", path, run.provenance.get("command"), {"task": content["task"]}, run.provenance)
    inputs.labels.append(FileContent(key=key, run=str(folder), path=path, content=content))


def _read_search(folder: Path, inputs: ReportInputs) -> None:
    path = folder / TRIALS_FILE
    content = read_json(path)
    trials = content.get("trials") if isinstance(content, dict) and content.get("format") == TRIALS_FORMAT else None
    if not isinstance(trials, list) or not all(isinstance(t, dict) and t.keys() >= TRIAL_KEYS for t in trials):
        raise BertVisionError(
            f"{path} is no record of a search of format {TRIALS_FORMAT}. Make it again: its command once more."
        )
    provenance = content.get("provenance")
    facts = {name: content.get(name) for name in ("task", "kind", "encoder", "objective")}
    key = inputs.add(
        "search", path, provenance.get("command") if isinstance(provenance, dict) else None, facts, provenance
    )
    request = RunFolder(folder).request()
    content = {"data": request["data"], "columns": request.get("columns")} | content
    inputs.searches.append(FileContent(key=key, run=str(folder), path=path, content=content))


def _check_fresh(record: EvaluationRecord, folder: Path, path: Path) -> None:
    """Refuse an evaluation of heads whose weights have changed since."""
    for name, digest in record.fingerprints.heads.items():
        weights = folder / "heads" / name / WEIGHTS
        if weights.is_file() and file_digest(weights)[:16] != digest:
            raise BertVisionError(
                f"{path} is stale: head {name} had the fingerprint {digest} and has {file_digest(weights)[:16]} now. "
                f"Evaluate again: bertvision evaluate {record.run}"
            )
