"""Tables of fitted heads."""

from pathlib import Path
from typing import Any

import pytest

from bertvision.cli.leaderboard import print_freeze_points, print_leaderboard, shown_metrics
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.tasks.load import TASKS

Capture = pytest.CaptureFixture[str]

HEAD = {"head": "layer_mix", "lr": 0.1, "seed": 0, "fraction": 1.0, "parameters": 7, "seconds": 0.5}


def table(freeze: dict[str, Any] | None) -> dict[str, Any]:
    points = [
        {"snapshot": "0.1", "epochs": 0.1, "own": None, "head": None, "held_out": None},
        {
            "snapshot": "1",
            "epochs": 1.0,
            "own": {"accuracy": 0.25},
            "head": {**HEAD, "metrics": {"accuracy": 0.75, "held_out_accuracy": 0.5}},
            "held_out": 0.5,
        },
    ]
    return {"run": "runs/x", "tolerance": 0.01, "points": points, "freeze_point": freeze}


@pytest.mark.parametrize(
    ("freeze", "title"),
    [
        (None, "runs/x: no head has a held-out score"),
        (
            {"snapshot": "1", "epochs": 1.0, "best_later": None, "gained_beyond": None},
            "runs/x: up to the last snapshot, 1 epoch, more tuning gained over 0.01 of the score",
        ),
        (
            {"snapshot": "0.1", "epochs": 0.1, "best_later": "1", "gained_beyond": 0.002},
            "tuning beyond 0.1 epochs gained 0.002 on held-out examples (snapshot 1), at most 0.01 of the score",
        ),
    ],
)
def test_the_title_says_where_to_freeze(capsys: Capture, freeze: dict[str, Any] | None, title: str) -> None:
    print_freeze_points(table(freeze))
    assert title in " ".join(capsys.readouterr().out.split())


def test_what_is_not_there_is_left_blank(capsys: Capture) -> None:
    print_freeze_points(table(None))
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row.split("│")[1:-1]] for row in rows]
    assert cells == [["0.1", "", "", "", "", ""], ["1", "0.25", "layer_mix", "0.75", "0.5", ""]]


def test_heads_that_were_solved_have_no_learning_rate(capsys: Capture) -> None:
    rows = [{**HEAD, "solved": solved, "metrics": {"accuracy": 0.5}} for solved in (True, False)]
    print_leaderboard(Path("runs/y"), rows)
    shown = [line.split("│")[2].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert shown == ["solved", "0.1"]


def test_what_tells_heads_of_one_name_apart_is_shown(capsys: Capture) -> None:
    rows = [{**HEAD, "options": {"norm": norm}, "warmup": 0.1, "metrics": {"accuracy": 0.5}} for norm in (True, False)]
    print_leaderboard(Path("runs/y"), rows)
    shown = [line.split("│")[2].strip() for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert shown == ["norm=true", "norm=false"]


def test_without_known_metrics_all_are_shown(capsys: Capture) -> None:
    print_leaderboard(Path("runs/y"), [{**HEAD, "metrics": {"held_out_mine": 0.5}}])
    assert "held_out_mine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "first"), [("sst5", "accuracy"), ("answerable", "accuracy"), ("mrpc", "f1"), ("stsb", "pearson")]
)
@pytest.mark.parametrize("prefix", ["", HELD_OUT_PREFIX])
def test_the_metric_that_heads_are_sorted_by_comes_first(
    task: str, first: str, prefix: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    metrics = {prefix + name: 0.5 for name in TASKS[task].metrics}
    print_leaderboard(Path("runs/y"), [{**HEAD, "metrics": metrics}])
    header = next(line for line in capsys.readouterr().out.splitlines() if "parameters" in line)
    shown = [word for word in header.split() if word in metrics]
    assert shown == list(metrics)
    assert shown[0] == prefix + first


@pytest.mark.parametrize("prefix", ["", HELD_OUT_PREFIX])
def test_of_questions_f1_comes_first_though_the_official_script_begins_with_exact(prefix: str) -> None:
    official = ("exact", "f1", "total", "HasAns_exact", "HasAns_f1", "best_exact", "best_f1")
    metrics = {prefix + name: 50.0 for name in official}
    assert shown_metrics([metrics], prefix) == [f"{prefix}f1", f"{prefix}best_f1", f"{prefix}exact"]
