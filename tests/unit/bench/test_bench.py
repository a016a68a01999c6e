import json
import time
from pathlib import Path

import pytest

from bertvision import provenance
from bertvision.bench.measure import Timing, compare, side_by_side
from bertvision.bench.record import Claim, write_size_record, write_speed_record


def test_candidates_run_in_turn_after_a_round_that_does_not_count() -> None:
    calls: list[str] = []
    timings = side_by_side({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert calls == ["a", "b"] * 3
    assert {name: len(timing.seconds) for name, timing in timings.items()} == {"a": 2, "b": 2}


def test_a_timing_is_that_of_the_call() -> None:
    assert side_by_side({"sleep": lambda: time.sleep(0.02)}, rounds=1)["sleep"].median >= 0.02


def test_ratios_are_taken_round_by_round() -> None:
    comparison = compare(Timing((1.0, 2.0, 1.0)), Timing((10.0, 10.0, 30.0)))
    assert (comparison.ratio, comparison.least, comparison.most) == (10.0, 5.0, 30.0)


def test_a_record_says_what_was_measured_and_where(tmp_path: Path) -> None:
    timings = {"ours": Timing((1.0,)), "plain": Timing((4.0,))}
    claim = Claim(name="speed-x", what="w", command="c", size="s", targets={"plain": 2.0})
    path = write_speed_record(tmp_path, claim, timings, {"plain": compare(timings["ours"], timings["plain"])})
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["ratios"] == {"plain": {"median": 4.0, "least": 4.0, "most": 4.0}}
    assert record["seconds"] == {"ours": [1.0], "plain": [4.0]}
    told = {"time", "commit", "dirty", "command", "python", "packages", "gpu", "processor", "cores"}
    assert set(record["provenance"]) == told


def test_a_record_of_sizes_has_the_bytes_and_how_many_times_smaller_ours_is(tmp_path: Path) -> None:
    claim = Claim(name="size-x", what="w", command="c", size="s", targets={"plain": 4.0})
    path = write_size_record(tmp_path, claim, {"ours": 300, "plain": 1350, "other": 150})
    record = json.loads(path.read_text(encoding="utf-8"))
    assert path == tmp_path / "size-x.json"
    assert (record["kind"], record["targets"]) == ("size", {"plain": 4.0})
    assert record["bytes"] == {"ours": 300, "plain": 1350, "other": 150}
    assert record["ratios"] == {"plain": 4.5, "other": 0.5}


def test_provenance_without_git_knows_neither_commit_nor_whether_files_were_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    found = provenance.provenance()
    assert (found["commit"], found["dirty"]) == (None, None)


def test_provenance_names_versions_of_what_is_installed() -> None:
    packages = provenance.provenance()["packages"]
    assert isinstance(packages, dict)
    assert packages["numpy"]
