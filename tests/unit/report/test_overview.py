"""What the report would choose."""

import json
from collections.abc import Mapping
from pathlib import Path

from bertvision.report.build import build_report
from bertvision.report.read_runs import read_runs
from report_files import write, write_tuned


def tuned(folder: Path, metrics: Mapping[str, float | None], *, task: str = "sst5") -> Path:
    """A tuned run that ended with these scores."""
    run = write_tuned(folder, task=task)
    write(run / "result.json", json.loads((run / "result.json").read_text(encoding="utf-8")) | {"metrics": metrics})
    return run


def chosen(*runs: Path) -> tuple[str, str]:
    """The run that the first table names, and its held-out score."""
    (table,) = [one for one in build_report(read_runs(runs)).tables() if one.key == "best"]
    (row,) = table.rows
    return row[-1].text, row[-2].text


def test_of_tuned_runs_that_were_not_evaluated_the_best_on_held_out_examples_is_chosen(tmp_path: Path) -> None:
    worse = tuned(tmp_path / "worse", {"held_out_accuracy": 0.25, "accuracy": 0.5})
    unknown = tuned(tmp_path / "unknown", {"held_out_accuracy": None, "accuracy": 0.9})
    best = tuned(tmp_path / "best", {"held_out_accuracy": 0.5, "accuracy": 0.4})
    assert chosen(worse, unknown, best) == (str(best), "0.500")


def test_questions_are_chosen_by_f1_at_the_best_threshold(tmp_path: Path) -> None:
    scores = {"exact": 50.0, "f1": 55.0, "held_out_exact": 40.0}
    first = tuned(tmp_path / "first", scores | {"held_out_f1": 60.0, "held_out_best_f1": 61.0}, task="squad2")
    best = tuned(tmp_path / "best", scores | {"held_out_f1": 50.0, "held_out_best_f1": 65.0}, task="squad2")
    assert chosen(first, best) == (str(best), "65.0")


def test_without_a_dev_split_held_out_scores_choose_too(tmp_path: Path) -> None:
    first, best = (tuned(tmp_path / name, {"held_out_accuracy": score}) for name, score in (("a", 0.25), ("b", 0.5)))
    assert chosen(first, best) == (str(best), "0.500")
