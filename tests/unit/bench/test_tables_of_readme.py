"""bench/tables_of_readme.py: the few rows of the README, from records made up by hand."""

from typing import Any

import pytest

from bertvision.bench.compare import measured_cells
from bertvision.errors import BertVisionError
from suite_record import entry, model, record
from tables_of_readme import PROMISES, RIVAL_CELLS, RIVALS, promises_table, rivals_table


def made_up(times: float | dict[str, float]) -> dict[str, dict[str, Any]]:
    """A record for every promise, each of which has these ratios and the target 2."""
    return {row.record: {"ratios": {row.baseline: times}, "targets": {row.baseline: 2.0}} for row in PROMISES}


def test_a_promise_has_its_ratio_its_target_and_its_record() -> None:
    first, *_ = promises_table(made_up({"median": 3.04, "least": 1.0, "most": 9.0})).splitlines()[2:]
    assert first.endswith("| plain loop, bucketed, batch 32 | **3.0** | 2.0 |")
    assert f"(results/{PROMISES[0].record}.json)" in first


def test_sizes_have_one_ratio() -> None:
    assert "| **4.5** | 2.0 |" in promises_table(made_up(4.46))


def test_every_promise_has_a_record_of_its_own() -> None:
    assert len({row.record for row in PROMISES}) == len(PROMISES)


def test_rivals_have_the_mean_and_spread_of_their_seeds() -> None:
    cells = [
        entry(name, "tune", seed, {"2": model(f1), "greedy": model(f1)})
        for name in sorted(RIVAL_CELLS)
        for seed, f1 in enumerate((70, 74))
    ]
    rows = rivals_table(measured_cells(record(*cells))).splitlines()[2:]
    assert len(rows) == len(RIVALS)
    assert all("| 72.0 ± 2.8 |" in row for row in rows)


def test_a_rival_that_was_not_measured_is_named() -> None:
    with pytest.raises(BertVisionError, match="'plain full:2' was not measured"):
        rivals_table([])
