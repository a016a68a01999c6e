"""SuiteResults: results/SUITE.json, the measured cells of a suite with their provenance; saved after each cell."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertvision.atomic import write_json
from bertvision.bench.environment import agrees
from bertvision.bench.suite import Cell, Suite
from bertvision.errors import BertVisionError
from bertvision.lock import lock_folder
from bertvision.provenance import portable, provenance
from bertvision.tasks.files import read_json

FORMAT = 1
RECORD = "suite"
CELL_TIMES, MODEL_TIMES = ("first_step_seconds",), ("seconds", "encode_seconds", "inference_seconds")


@dataclass(frozen=True, slots=True)
class SuiteResults:
    """The record of a suite on disk.

    Attributes:
        path: path of the file.
        suite: the suite.
        cells: entries by `Cell.key`; cells that are no longer in the suite are kept.
    """

    path: Path
    suite: Suite
    cells: dict[str, dict[str, Any]]

    def find(self, cell: Cell, seed: int) -> dict[str, Any] | None:
        """The entry of a cell with the same settings and seed; None if it is not measured."""
        entry = self.cells.get(cell.key(seed))
        return entry if entry is not None and agrees(entry["settings"], cell.as_json()["settings"]) else None

    def add(self, cell: Cell, seed: int, result: Mapping[str, Any], seconds: float | None) -> None:
        """Add the result of a cell, and save the record; without any times if `seconds` is None.

        Raises:
            BertVisionError: the record cannot be written; the file stays as it was.
        """
        where = provenance()
        self.cells[cell.key(seed)] = {
            **cell.as_json(),
            "seed": seed,
            "seconds": None if seconds is None else round(seconds, 1),
            "dirty": where["dirty"],
            "result": without_times(result) if seconds is None else dict(result),
            "provenance": where | {"command": portable(str(where["command"])) if where["command"] else None},
        }
        self.save()

    def join(self, paths: Sequence[Path]) -> None:
        """Add entries of other records for cells of this suite that this record lacks; nothing is saved.

        Raises:
            BertVisionError: one of the files cannot be read, or is no record of a suite.
        """
        for path in paths:
            others = read_suite_record(path)["cells"]
            for cell in self.suite.cells:
                for entry in (one for one in others.values() if one["kind"] == cell.kind):
                    fits = agrees(entry["settings"], cell.as_json()["settings"])
                    if fits and self.find(cell, entry["seed"]) is None:
                        self.cells[cell.key(entry["seed"])] = entry

    def save(self) -> None:
        """Write the record, with the entries that another process has added to the file since it was read.

        Raises:
            BertVisionError: the record cannot be written, or the file is no longer a record of a suite.
        """
        with lock_folder(self.path.parent, wait=True):
            written = read_suite_record(self.path)["cells"] if self.path.is_file() else {}
            self.cells.update({key: entry for key, entry in written.items() if key not in self.cells})
            write_json(self.path, self.as_json())

    def as_json(self) -> dict[str, Any]:
        """The content of the file; `plan` has the cells that are in the suite now."""
        suite = self.suite
        return {
            "format": FORMAT,
            "record": RECORD,
            "suite": suite.name,
            "about": suite.about,
            "plan": [cell.as_json() for cell in suite.cells],
            "pairs": [asdict(pair) for pair in suite.pairs],
            "cells": self.cells,
        }

    def estimate(self, cell: Cell, seed: int) -> float | None:
        """Estimated seconds of a cell; None if unknown.

        The most that it took with another seed, else the most of its kind on the same task, else the most of its kind.
        """
        of_kind = [one for one in self.cells.values() if one["kind"] == cell.kind and one["seconds"] is not None]
        same = [one["seconds"] for one in of_kind if self.find(cell, one["seed"]) is one and one["seed"] != seed]
        task = cell.as_json()["settings"].get("task")
        of_task = [one["seconds"] for one in of_kind if one["settings"].get("task") == task]
        return max(same or of_task or (one["seconds"] for one in of_kind), default=None)


def without_times(result: Mapping[str, Any]) -> dict[str, Any]:
    """The result with None for all times, which depend on the load of the machine."""
    models = {
        name: model | {one: None for one in MODEL_TIMES if one in model}
        for name, model in result.get("models", {}).items()
    }
    return {**result, **{one: None for one in CELL_TIMES if one in result}, "models": models}


def open_results(path: Path, suite: Suite) -> SuiteResults:
    """The record of a suite, empty if there is no file yet.

    Raises:
        BertVisionError: the file cannot be read, or is no record of a suite.
    """
    return SuiteResults(path, suite, read_suite_record(path)["cells"] if path.is_file() else {})


def read_suite_record(path: Path) -> dict[str, Any]:
    """The content of the file of a suite's record.

    Raises:
        BertVisionError: the file cannot be read, or is no record of a suite in format `FORMAT`.
    """
    content = read_json(path)
    if not isinstance(content, dict) or (content.get("format"), content.get("record")) != (FORMAT, RECORD):
        raise BertVisionError(
            f"{path} is no record of a suite in format {FORMAT}. Move it away, or use another --results."
        )
    return content
