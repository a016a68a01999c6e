"""Heads for every snapshot of a tuned run, and where more tuning stops paying."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertvision.errors import BertVisionError, DivergedError
from bertvision.runs.fitting import freeze_points as module
from bertvision.runs.fitting.fit import FitResult, fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.freeze_points import fit_snapshots, freeze_point
from bertvision.runs.tuning.multitask import multitask
from bertvision.runs.tuning.tune import tune
from bertvision.training.trainee import HeadSpec
from folders import everything
from tiny_run import (
    read_lines,
    same_heads,
    save_tiny_encoder,
    tiny_fit,
    tiny_multitask,
    tiny_request,
    write_labels,
    write_questions,
    write_scores,
    write_several,
)

pytestmark = pytest.mark.usefixtures("few_strengths")

MIX = HeadSpec(head="layer_mix", lr=2e-2)
PLAIN = HeadSpec(head="last_layer", lr=2e-2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of three snapshots."""
    folder = tmp_path_factory.mktemp("tuned")
    encoder = save_tiny_encoder(folder / "encoder")
    data = write_labels(folder / "data")
    request = tiny_request("sst2", data, encoder, snapshots=(0.2, 0.6), held_out=0.2, learn="top:1")
    tune(request, folder / "run")
    return str(folder / "run")


@pytest.fixture
def asked(run: str) -> FitRequest:
    return tiny_fit("sst2", str(Path(run).parent / "data"), run, PLAIN, MIX)


def points(*scores: float | None) -> list[dict[str, Any]]:
    return [{"snapshot": str(n), "epochs": float(n), "held_out": score} for n, score in enumerate(scores, start=1)]


@pytest.mark.parametrize(
    ("scores", "tolerance", "expected"),
    [
        ((50.0, 60.0, 60.5, 60.2), 0.01, ("2", "3", 0.5)),  # 60 is within 0.605 of 60.5, 50 is not
        ((50.0, 60.0, 60.7, 60.2), 0.01, ("3", "4", -0.5)),  # 60 is not within 0.607 of 60.7
        ((50.0, 60.0, 60.5, 60.2), 0.2, ("1", "3", 10.5)),
        ((70.0, 60.0, 65.0), 0.0, ("1", "3", -5.0)),  # tuning made it worse
        ((1.0, 2.0, 3.0), 0.01, ("3", None, None)),  # it paid to the end
        ((-0.1, -0.1), 0.0, ("1", "2", 0.0)),  # a correlation may be negative
        ((-0.102, -0.1), 0.01, ("2", None, None)),
        ((None, 0.5, None), 0.01, ("2", None, None)),
    ],
)
def test_the_freeze_point_is_the_earliest_within_the_tolerance_of_the_best_later_one(
    scores: tuple[float | None, ...], tolerance: float, expected: tuple[str, str | None, float | None]
) -> None:
    found = freeze_point(points(*scores), tolerance)
    assert found is not None
    snapshot, later, gained = expected
    assert (found["snapshot"], found["epochs"], found["best_later"]) == (snapshot, float(snapshot), later)
    assert found["gained_beyond"] == (None if gained is None else pytest.approx(gained))


def test_without_scores_there_is_no_freeze_point() -> None:
    assert freeze_point(points(None, None), 0.01) is None
    assert freeze_point([], 0.01) is None


def test_every_snapshot_has_a_fit_of_its_own_and_a_row(asked: FitRequest, run: str, tmp_path: Path) -> None:
    result = fit_snapshots(asked, tmp_path / "out")
    assert result.table == json.loads((tmp_path / "out" / "freeze_points.json").read_text(encoding="utf-8"))
    rows = result.table["points"]
    assert [(row["snapshot"], row["epochs"], row["steps"]) for row in rows] == [
        ("0.2", 0.2, 1),
        ("0.6", 0.6, 2),
        ("1", 1.0, 4),
    ]
    own = [line for line in read_lines(Path(run)) if "snapshot" in line]
    for row, line in zip(rows, own, strict=True):
        assert row["own"]["accuracy"] == line["accuracy"]
        alone = fit_heads(replace(asked, encoder=f"{run}@{row['snapshot']}"), tmp_path / f"alone-{row['snapshot']}")
        assert same_heads(alone.run, tmp_path / "out" / row["folder"])
        best = max(alone.leaderboard, key=lambda one: (one["metrics"]["held_out_accuracy"], -one["parameters"]))
        assert row["head"]["metrics"] == best["metrics"]
        assert row["held_out"] == row["head"]["metrics"]["held_out_accuracy"]
    assert result.table["freeze_point"] == freeze_point(rows, 0.01)
    assert (result.table["task"], result.table["schedule"]) == ("sst2", "linear")
    assert any("linear schedule over 1 epoch:" in notice for notice in result.notices)


def test_the_best_head_is_chosen_by_held_out_examples_and_never_by_dev(
    asked: FitRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def row(name: str, held_out: float | None, dev: float, parameters: int) -> dict[str, Any]:
        metrics = {"accuracy": dev}
        return {"head": name, "held_out": held_out, "parameters": parameters, "folder": name, "metrics": metrics}

    board = [
        row("large", 0.8, 0.99, 9),
        row("undefined", None, 0.98, 1),
        row("small", 0.8, 0.7, 2),
        row("bad", 0.5, 0.9, 1),
    ]
    boards = iter([board, board[1:2]])

    def fitted(_request: FitRequest, out: Path, **_options: object) -> FitResult:
        found = next(boards, None)
        if found is None:
            raise DivergedError("no head was kept.")
        return FitResult(run=out, leaderboard=found, notices=("said once",))

    monkeypatch.setattr(module, "fit_heads", fitted)
    result = fit_snapshots(asked, tmp_path / "out")
    assert [row["head"] and row["head"]["head"] for row in result.table["points"]] == ["small", "undefined", None]
    assert [row["held_out"] for row in result.table["points"]] == [0.8, None, None]
    assert result.notices.count("said once") == 1
    assert "snapshot 1: no head was kept." in result.notices


def test_some_snapshots_in_any_order(asked: FitRequest, tmp_path: Path) -> None:
    result = fit_snapshots(asked, tmp_path / "out", snapshots=(1.0, 0.2, 1.0), tolerance=0.9)
    assert [row["snapshot"] for row in result.table["points"]] == ["0.2", "1"]
    assert result.table["freeze_point"]["snapshot"] == "0.2"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["at-0.2", "at-1", "freeze_points.json"]


def test_one_killed_between_two_snapshots_goes_on(
    asked: FitRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fit_snapshots(asked, tmp_path / "whole")
    calls = []

    def killed(*args: Any, **options: Any) -> FitResult:  # noqa: ANN401
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit_heads(*args, **options)

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(module, "fit_heads", killed)
        with pytest.raises(KeyboardInterrupt):
            fit_snapshots(asked, out)
    assert [path.name for path in out.iterdir()] == ["at-0.2"]
    before = everything(out)
    with pytest.raises(BertVisionError, match=r"holds runs already\. Go on with them: --resume"):
        fit_snapshots(asked, out)
    resumed = fit_snapshots(asked, out, resume=True)
    assert everything(out / "at-0.2") == {name.removeprefix("at-0.2/"): content for name, content in before.items()}

    def metrics(table: dict[str, Any]) -> list[Any]:
        return [(row["held_out"], row["head"]["metrics"]) for row in table["points"]]

    assert metrics(resumed.table) == metrics(whole.table)


def test_questions_state_three_thresholds(tmp_path: Path) -> None:
    encoder, data = save_tiny_encoder(tmp_path / "encoder"), write_questions(tmp_path / "data")
    tune(tiny_request("squad2", data, encoder, held_out=0.2), tmp_path / "run")
    result = fit_snapshots(tiny_fit("squad2", data, str(tmp_path / "run"), MIX), tmp_path / "out")
    [row] = result.table["points"]
    for metrics in (row["own"], row["head"]["metrics"]):
        assert {"f1", "f1_fitted", "best_f1"} <= metrics.keys()
    assert row["held_out"] == row["head"]["metrics"]["held_out_best_f1"]


def test_a_run_for_several_tasks_may_not_have_learnt_from_what_judges_its_snapshots(tmp_path: Path) -> None:
    encoder, data = save_tiny_encoder(tmp_path / "encoder"), write_several(tmp_path / "data")
    multitask(tiny_multitask("sst2,squad2", data, encoder, held_out=0.2, learn="top:1"), tmp_path / "run")
    request = tiny_fit("sst2", data, str(tmp_path / "run"), PLAIN)
    [point] = fit_snapshots(request, tmp_path / "out").table["points"]
    assert point["own"] is None
    with pytest.raises(BertVisionError, match=r"Use --held-out 0\.2 --seed 0 --fraction 1\."):
        fit_snapshots(replace(request, held_out=0.3), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_run_on_other_files_of_ones_own_has_learnt_from_none_of_these(tmp_path: Path) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder")
    tuned, others = (write_scores(tmp_path / name, train=count) for name, count in (("tuned", 40), ("others", 30)))
    tune(tiny_request("own", tuned, encoder, held_out=0.2, learn="top:1"), tmp_path / "run")
    request = tiny_fit("own", others, str(tmp_path / "run"), PLAIN, held_out=0.3, seed=4)
    [point] = fit_snapshots(request, tmp_path / "out").table["points"]
    assert point["own"] is None  # its own scores are those on the other files
    assert point["held_out"] is not None


def test_another_task_than_the_run_has_no_own_output(asked: FitRequest, tmp_path: Path) -> None:
    # other examples: the run's own choice of held-out ones does not matter
    result = fit_snapshots(replace(asked, task="sst5", data="builtin", seed=4), tmp_path / "out", snapshots=(1.0,))
    assert result.table["points"][0]["own"] is None


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"snapshots": (0.2, 0.5)}, r"has no snapshot at 0\.5; it has 0\.2, 0\.6, 1"),
        ({}, {"snapshots": ()}, "--snapshots names none; 'all', or epochs such as"),
        ({}, {"tolerance": 1.0}, "--tolerance is 1, at least 0 and less than 1 is expected"),
        ({"source": "store:x"}, {}, "a store holds the states of one snapshot"),
        ({"encoder": "minilm"}, {}, r"minilm is no tuned run with snapshots\. .* bertvision tune TASK"),
        ({"held_out": 0.3}, {}, r"held out other examples .* Use --held-out 0\.2 --seed 0 --fraction 1\."),
        ({"heads": ()}, {}, "no head was asked for"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    changes: dict[str, Any], options: dict[str, Any], message: str, asked: FitRequest, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        fit_snapshots(replace(asked, **changes), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_whoever_watches_is_told_which_snapshot_it_is(asked: FitRequest, tmp_path: Path) -> None:
    told: list[str] = []

    def show(step: int, total: int, values: Any, *, doing: str = "") -> None:  # noqa: ANN401, ARG001 - as `Show` has it
        told.append(doing)

    fit_snapshots(asked, tmp_path / "out", snapshots=(0.2, 1.0), show=show)
    assert "snapshot 0.2 scoring 2 heads …" in told
    assert told[-1] == "snapshot 1 scoring 2 heads …"
