"""What is kept of every example, for paired tests of labels and scores; questions are in the end-to-end tests."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from bertvision.bench.measured import outcomes, pack_golds
from bertvision.tasks.examples import Texts
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Task


def judged(task: Task, targets: Any, said: list[Any], folder: Path) -> tuple[str | None, str | None]:  # noqa: ANN401
    """Golds and outcomes as a record has them."""
    ids = [f"id {number}" for number in range(len(said))]
    examples = Texts(ids=ids, texts=["a"] * len(said), pairs=None, targets=targets)
    (folder / "predictions.json").write_text(json.dumps(dict(zip(ids, said, strict=True))), encoding="utf-8")
    subject: Any = SimpleNamespace(part=SimpleNamespace(examples=examples), parts=SimpleNamespace(task=task))
    return pack_golds(task, examples), outcomes(subject, folder)


def test_labels_are_kept_as_class_numbers_beside_the_golds(tmp_path: Path) -> None:
    said = ["entailment", "not_entailment", "entailment"]
    assert judged(TASKS["rte"], np.array([0, 1, 1]), said, tmp_path) == ("0 1 1", "0 1 0")


def test_scores_are_kept_to_three_places(tmp_path: Path) -> None:
    found = judged(TASKS["stsb"], np.array([0.0, 2.5, 3.667]), [0.12345, -0.2, 5.1], tmp_path)
    assert found == ("0 2.5 3.667", "0.123 -0.2 5.1")


def test_tags_are_not_kept(tmp_path: Path) -> None:
    task = replace(TASKS["rte"], kind="tags")
    assert judged(task, np.array([[0, 1]]), [["entailment"]], tmp_path) == (None, None)
