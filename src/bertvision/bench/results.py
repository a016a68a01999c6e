"""results/SUITE.json: every measured cell of a suite, with where it was measured; written anew after each cell."""

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
        suite: what it is about.
        cells: what was measured, by the cells' keys; those that the suite no longer asks for stay.
    """

    path: Path
    suite: Suite
    cells: dict[str, dict[str, Any]]

    def find(self, cell: Cell, seed: int) -> dict[str, Any] | None:
        """What was measured of a cell with these very settings; None if nothing was."""
        found = self.cells.get(cell.key(seed))
        return found if found is not None and agrees(found["settings"], cell.as_json()["settings"]) else None

    def add(self, cell: Cell, seed: int, result: Mapping[str, Any], seconds: float | None) -> None:
        """Keep what was measured, on disk, too; without any time of it where `seconds` is None.

        Raises:
            BertVisionError: it cannot be written; what was there before is kept.
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
        """Take over what other records have of this suite's cells and this one lacks; nothing is written.

        Raises:
            BertVisionError: one of them is something else.
        """
        for path in paths:
            there = read_suite_record(path)["cells"]
            for cell in self.suite.cells:
                for entry in (one for one in there.values() if one["kind"] == cell.kind):
                    fits = agrees(entry["settings"], cell.as_json()["settings"])
                    if fits and self.find(cell, entry["seed"]) is None:
                        self.cells[cell.key(entry["seed"])] = entry

    def save(self) -> None:
        """Write the record, with the cells that another process has written to it since it was read.

        Raises:
            BertVisionError: it cannot be written, or was replaced by something else.
        """
        with lock_folder(self.path.parent, wait=True):
            written = read_suite_record(self.path)["cells"] if self.path.is_file() else {}
            self.cells.update({key: entry for key, entry in written.items() if key not in self.cells})
            write_json(self.path, self.as_json())

    def as_json(self) -> dict[str, Any]:
        """What the file holds; `plan` says which cells the suite asks for now."""
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
        """About how many seconds a cell will take: as with another seed, or as the longest of its kind, on its task."""
        alike = [one for one in self.cells.values() if one["kind"] == cell.kind and one["seconds"] is not None]
        same = [one["seconds"] for one in alike if self.find(cell, one["seed"]) is one and one["seed"] != seed]
        task = cell.as_json()["settings"].get("task")
        near = [one["seconds"] for one in alike if one["settings"].get("task") == task]
        return max(same or near or (one["seconds"] for one in alike), default=None)


def without_times(result: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured without what hangs on how busy a machine is."""
    models = {
        name: model | {one: None for one in MODEL_TIMES if one in model}
        for name, model in result.get("models", {}).items()
    }
    return {**result, **{one: None for one in CELL_TIMES if one in result}, "models": models}


def open_results(path: Path, suite: Suite) -> SuiteResults:
    """The record of a suite, as far as it is there.

    Raises:
        BertVisionError: the file is something else.
    """
    return SuiteResults(path, suite, read_suite_record(path)["cells"] if path.is_file() else {})


def read_suite_record(path: Path) -> dict[str, Any]:
    """What the file of a suite's record holds.

    Raises:
        BertVisionError: it is something else.
    """
    content = read_json(path)
    if not isinstance(content, dict) or (content.get("format"), content.get("record")) != (FORMAT, RECORD):
        raise BertVisionError(
            f"{path} is no record of a suite in format {FORMAT}. Move it away, or use another --results."
        )
    return content
