"""bench/tables_of_speed.py: timings, sizes and whole runs, from records made up by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from bertvision.bench.checks import gpu_rates
from bertvision.bench.compare import measured_cells
from bertvision.bench.hardware import HARDWARE
from bertvision.errors import BertVisionError
from conftest import ROOT
from suite_record import entry, model, record
from tables_of_speed import LOOPS, limits_table, loops_table, measured_at, size_table, speed_table

PROVENANCE = {"time": "2026-01-02T03:04:05", "gpu": None, "processor": "x", "commit": "0123456789", "dirty": False}


def write(folder: Path, name: str, **content: Any) -> None:  # noqa: ANN401 - JSON
    common = {"what": name, "size": "a lot", "command": "python x", "targets": {"slow": 2.0}, "provenance": PROVENANCE}
    (folder / f"{name}.json").write_text(json.dumps(common | content), encoding="utf-8")


def test_a_timing_has_a_row_for_each_rival_and_says_when_and_where_it_was_measured_once(tmp_path: Path) -> None:
    ratio, slowdown = {"median": 3.04, "least": 1.0, "most": 9.0}, {"median": 0.456, "least": 0.4, "most": 1.0}
    write(tmp_path, "speed-x", ratios={"slow": ratio, "fast": slowdown})
    first, second = speed_table(tmp_path).splitlines()[2:]
    assert first == (
        "| [speed-x](../results/speed-x.json) | slow | **3.0** (1.0 to 9.0) | 2.0 | a lot | `python x` "
        "| 2026-01-02, x, `01234567` |"
    )
    assert second == "|  | fast | **0.46** (0.40 to 1.00) |  |  |  |  |"


def test_a_size_has_the_bytes_of_both(tmp_path: Path) -> None:
    write(tmp_path, "size-x", ratios={"slow": 4.46}, bytes={"ours": 1_000_000, "slow": 4_460_000})
    [row] = size_table(tmp_path).splitlines()[2:]
    assert "| slow | **4.5** (1 of 4 MB) | 2.0 |" in row


def test_files_that_had_changed_since_the_commit_are_marked() -> None:
    assert measured_at(PROVENANCE | {"dirty": True}).endswith("`01234567`†")
    assert measured_at(PROVENANCE | {"dirty": None, "gpu": "H200"}) == "2026-01-02, H200, `01234567`"


def test_whole_runs_have_the_mean_of_the_seeds_that_were_timed() -> None:
    entries = []
    for name in LOOPS:
        for kind, called, times in (("tune", name, (8, 12, None)), ("plain", f"plain {name}", (40, None, None))):
            for seed, seconds in enumerate(times):
                told = model(70) | {"seconds": seconds, "inference_seconds": None if seconds is None else seconds / 1e4}
                timed = {} if seconds else {"first_step_seconds": None, "peak_bytes": None}
                entries.append(entry(called, kind, seed, {"1": model(1), "2": told}, **timed))
    rows = loops_table(measured_cells(record(*entries))).splitlines()[2:]
    assert len(rows) == len(LOOPS)
    assert all(row.endswith("| 40.0 | 10.0 | **4.0** | 0.5 / 0.5 | 2 / 2 | 4 / 1 |") for row in rows)


def test_whole_runs_that_were_not_measured_or_not_timed_are_named() -> None:
    with pytest.raises(BertVisionError, match="'full' was not measured"):
        loops_table([])
    untimed = model(70) | {"seconds": None}
    with pytest.raises(BertVisionError, match="'full' was not timed"):
        loops_table(measured_cells(record(entry("full", "tune", 0, {"2": untimed}))))


def test_the_gpu_is_used_as_much_as_its_operations_say() -> None:
    ours, padded, *_ = gpu_rates(ROOT / "results")
    assert ours.operations / HARDWARE["h200"].peak == pytest.approx(HARDWARE["h200"].utilisation, rel=0.03)
    assert ours.operations / padded.operations == pytest.approx(ours.windows / padded.windows)
    assert "| ours |" in limits_table()
