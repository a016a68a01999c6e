"""What is read of runs, and what is refused with a word on how to mend it."""

import json
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError
from bertvision.provenance import file_digest
from bertvision.report.groups import group_runs
from bertvision.report.read_runs import read_runs
from report_files import (
    label_rows,
    label_run,
    write,
    write_analysis,
    write_evaluation,
    write_fit,
    write_freeze,
    write_tuned,
)


def test_a_run_is_read_with_all_that_lies_below_it(tmp_path: Path) -> None:
    run = label_run(tmp_path / "fit")
    write_analysis(run)
    found = read_runs([run])
    assert [record.kind for record in found.records] == ["fit", "evaluation", "ensemble", "analysis"]
    assert [record.key for record in found.records] == ["r1", "r2", "r3", "r4"]
    assert found.records[0].command == f"bertvision fit sst5 --out {run}"
    assert found.records[1].command == f"bertvision evaluate {run}"
    assert ("tree", "clean") in found.records[1].where()
    assert found.runs[0].is_fit


def test_a_folder_of_several_runs_stands_for_all_of_them(tmp_path: Path) -> None:
    folder = write_freeze(tmp_path / "freeze")
    found = read_runs([folder, folder / "at-1"])  # named twice, read once
    assert [run.name for run in found.runs] == [str(folder / "at-0.5"), str(folder / "at-1")]
    assert [freeze.run for freeze in found.freezes] == [str(folder)]
    (group,) = group_runs(found)
    assert len(group.freezes) == 1


def test_a_snapshot_s_analysis_is_found(tmp_path: Path) -> None:
    run = write_tuned(tmp_path / "tuned")
    write_analysis(run)
    (run / "at-1").mkdir()
    (run / "analysis.json").rename(run / "at-1" / "analysis.json")
    assert [str(one.path) for one in read_runs([run]).analyses] == [str(run / "at-1" / "analysis.json")]


def test_runs_whose_names_look_alike_have_places_of_their_own(tmp_path: Path) -> None:
    runs = [write_fit(tmp_path / name) for name in ("a b", "a-b")]
    places = [run.place for run in read_runs(runs).runs]
    assert len(set(places)) == 2


def test_tasks_on_other_data_are_apart(tmp_path: Path) -> None:
    runs = [write_fit(tmp_path / name, data=name) for name in ("one", "two")]
    assert [group.title for group in group_runs(read_runs(runs))] == ["sst5, one", "sst5, two"]


def test_runs_on_other_columns_of_a_file_are_apart_with_what_was_made_of_them(tmp_path: Path) -> None:
    for kind in ("labels", "scores"):
        run = write_fit(tmp_path / kind, task="own", data="a.csv", columns={"label": "stars", "kind": kind})
        write_evaluation(run, label_rows(), kind=kind, task="own", data="a.csv")
    groups = group_runs(read_runs([tmp_path / "labels", tmp_path / "scores"]))
    assert [group.title for group in groups] == [
        f"own, a.csv (label stars, kind {kind})" for kind in ("labels", "scores")
    ]
    assert [group.evaluations[0].content.kind for group in groups] == ["labels", "scores"]


def test_nothing_named_is_refused() -> None:
    with pytest.raises(BertVisionError, match="no run was named"):
        read_runs([])


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"nowhere holds no run: config.json is not there. Name runs"):
        read_runs([tmp_path / "nowhere"])


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    (run / "result.json").unlink()
    with pytest.raises(BertVisionError, match=r"fit is not finished. Go on with it: its command with --resume"):
        read_runs([run])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("leaderboard.json", {}, "leaderboard.json holds no list"),
        ("leaderboard.json", [{"head": "x"}], "row 0 lacks folder, .* Fit again"),
        ("leaderboard.json", [7], "row 0 lacks folder"),
        ("leaderboard.json", "{", "leaderboard.json:1: not JSON"),
        ("config.json", {"format": 9, "request": {}}, "config.json has format 9, 2 is expected"),
        ("evaluation/dev/evaluation.json", {"format": 2}, "evaluation.json .* Evaluate again: bertvision evaluate"),
        ("evaluation/dev/evaluation.json", {"format": 1, "record": "evaluation", "rows": []}, "Evaluate again"),
        ("ensembles/dev/mean-1/ensemble.json", [], "ensemble.json cannot be read .* bertvision ensemble"),
        ("analysis.json", {"format": 1, "record": "speed"}, "analysis.json .* Analyse again: bertvision analyse"),
    ],
)
def test_a_broken_record_is_named(tmp_path: Path, name: str, content: object, message: str) -> None:
    run = label_run(tmp_path / "fit")
    path = run / name
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        write(path, content)
    with pytest.raises(BertVisionError, match=message):
        read_runs([run])


def test_a_tuned_run_without_metrics_is_refused(tmp_path: Path) -> None:
    run = write_tuned(tmp_path / "tuned")
    write(run / "result.json", {"format": 2})
    with pytest.raises(BertVisionError, match=r"result.json tells no metrics"):
        read_runs([run])


def test_freeze_points_of_another_format_are_refused(tmp_path: Path) -> None:
    folder = write_freeze(tmp_path / "freeze")
    write(folder / "freeze_points.json", {"format": 7})
    with pytest.raises(BertVisionError, match=r"freeze_points.json is no table of freeze points of format 1"):
        read_runs([folder])


def test_an_evaluation_of_heads_that_have_changed_is_stale(tmp_path: Path) -> None:
    run = write_fit(tmp_path / "fit")
    weights = run / "heads" / "000-layer_mix" / "head.safetensors"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"one")
    digest = file_digest(weights)[:16]
    write_evaluation(run, label_rows(), heads={"000-layer_mix": digest})
    assert len(read_runs([run]).evaluations) == 1
    weights.write_bytes(b"two")
    expected = f"evaluation.json is stale: head 000-layer_mix had the fingerprint {digest} .* Evaluate again"
    with pytest.raises(BertVisionError, match=expected):
        read_runs([run])


def test_what_is_half_written_is_not_read(tmp_path: Path) -> None:
    run = label_run(tmp_path / "fit")
    hidden = run / "evaluation" / ".dev.part"
    hidden.mkdir()
    (hidden / "evaluation.json").write_text(json.dumps({}), encoding="utf-8")
    assert len(read_runs([run]).evaluations) == 1
