"""The record of a search as one JSON file: all trials, the best one, its history, and parameter importance."""

import json
import math
from pathlib import Path
from typing import Any

from optuna.trial import FrozenTrial

from bertvision.atomic import write_json
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.provenance import provenance
from bertvision.runs.searching.search_request import TRIALS_FILE, TRIALS_FORMAT, SearchRequest
from bertvision.runs.searching.search_study import (
    FAILURE,
    FOLDER,
    PROVENANCE,
    SECONDS,
    SOLVED,
    best_trial,
    importances,
    notes_of,
)
from bertvision.tasks.load import find_task


def search_record(request: SearchRequest, trials: list[FrozenTrial], *, dev: dict[str, Any] | None) -> dict[str, Any]:
    """The content of `trials.json`.

    Args:
        request: settings of the trials.
        trials: all trials except abandoned ones; see `all_trials`.
        dev: scores of the best trial on dev; None while the search is not finished.
    """
    best = best_trial(trials)
    return {
        "format": TRIALS_FORMAT,
        "record": "search",
        "task": request.task,
        "encoder": request.encoder,
        "kind": request.space.kind,
        "objective": _objective(request),
        "settings": json.loads(json.dumps(request.settings())),
        "best": None if best is None else {"trial": best.number, "value": best.value, "dev": dev},
        "importance": {} if dev is None else importances(trials),
        "history": _history(trials),
        "trials": [_row(trial) for trial in trials],
        "provenance": provenance(),
    }


def _objective(request: SearchRequest) -> str:
    """The metric that is maximised; for several tasks, the mean of their metrics, each at most 1."""
    if request.space.kind == "multitask":
        return f"{HELD_OUT_PREFIX}mean"
    task = find_task(request.task, data=request.data, columns=request.columns)
    return HELD_OUT_PREFIX + task.choosing_metric


def write_record(folder: Path, record: dict[str, Any]) -> None:
    """Write the record into the folder of a search.

    Raises:
        BertVisionError: the file cannot be written.
    """
    write_json(folder / TRIALS_FILE, record)


def _row(trial: FrozenTrial) -> dict[str, Any]:
    notes = notes_of(trial)
    return {
        "trial": trial.number,
        "state": trial.state.name.lower(),
        "value": trial.value,
        "parameters": trial.params,
        "rungs": {str(rung): score for rung, score in sorted(trial.intermediate_values.items())},
        "seconds": notes.get(SECONDS),
        "solved": notes.get(SOLVED, False),
        "failure": notes.get(FAILURE),
        "folder": notes.get(FOLDER),
        "begun": None if trial.datetime_start is None else trial.datetime_start.isoformat(timespec="seconds"),
        "provenance": notes.get(PROVENANCE),
    }


def _history(trials: list[FrozenTrial]) -> list[dict[str, Any]]:
    """For each completed trial, by number: its value, and the best value so far."""
    best, lines = -math.inf, []
    for trial in trials:
        if trial.state.name == "COMPLETE" and trial.value is not None:
            best = max(best, trial.value)
            lines.append({"trial": trial.number, "value": trial.value, "best": best})
    return lines
