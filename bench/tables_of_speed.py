"""Markdown tables of speed and size: every benchmark, tuned runs beside plain loops, and utilisation of the GPU."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertvision.bench.checks import gpu_rates
from bertvision.bench.compare import Measured, mean_and_spread
from bertvision.bench.hardware import HARDWARE
from bertvision.bench.tables import DIRTY, GIGABYTE, MILLI
from bertvision.errors import BertVisionError
from bertvision.report.numbers import show_number
from markdown_tables import table

RESULTS = Path(__file__).parents[1] / "results"

COLUMNS = ("promised", "on", "command", "measured")

LOOPS = {
    "full": "all parameters",
    "lora": "`lora:16`, with PEFT in the plain loop",
    "bitfit": "`bitfit`",
    "frozen": "the output of the frozen last layer",
}
"""What is trained, by our cell of the suite `rival`; the plain loop's cell has `plain ` before the name."""


def speed_table(results: Path = RESULTS) -> str:
    """A table of all records of speed."""
    rows = [row for path in sorted(results.glob("speed-*.json")) for row in _rows(path, _ratio)]
    return table(("what", "against", "times faster (range)", *COLUMNS), rows)


def _ratio(ratio: Mapping[str, float]) -> str:
    """Median and range of a ratio; one below 1 with one more digit."""
    digits = 1 if ratio["median"] >= 1 else 2
    return f"**{ratio['median']:.{digits}f}** ({ratio['least']:.{digits}f} to {ratio['most']:.{digits}f})"


def size_table(results: Path = RESULTS) -> str:
    """A table of all records of size."""
    rows = []
    for path in sorted(results.glob("size-*.json")):
        sizes = _read(path)["bytes"]
        against = {name: f"({sizes['ours'] / 1e6:,.0f} of {size / 1e6:,.0f} MB)" for name, size in sizes.items()}
        rows += [
            (*row[:2], f"{row[2]} {against[row[1]]}", *row[3:]) for row in _rows(path, lambda one: f"**{one:.1f}**")
        ]
    return table(("what", "against", "times smaller", *COLUMNS), rows)


def _rows(path: Path, show: Callable[[Any], str]) -> list[tuple[str, ...]]:
    """A row for each baseline of a record; only the first row has the columns that are equal for all."""
    record = _read(path)
    what = f"[{record['what']}](../results/{path.name})"
    rows: list[tuple[str, ...]] = []
    for baseline, ratio in record["ratios"].items():
        same = ("", "", "") if rows else (record["size"], f"`{record['command']}`", measured_at(record["provenance"]))
        rows.append(("" if rows else what, baseline, show(ratio), str(record["targets"].get(baseline, "")), *same))
    return rows


def measured_at(provenance: Mapping[str, Any]) -> str:
    """The day, the machine and the commit of a record; with `DIRTY` if it was measured with uncommitted changes."""
    machine = provenance.get("gpu") or provenance["processor"]
    commit = f"`{str(provenance['commit'])[:8]}`{DIRTY if provenance['dirty'] else ''}"
    return f"{provenance['time'][:10]}, {machine}, {commit}"


def loops_table(cells: Sequence[Measured]) -> str:
    """Costs of two epochs of ours and of the plain loop, for each `learn` that both support."""
    rows = []
    for name, what in LOOPS.items():
        ours, plain = (_timed(cells, words) for words in (name, f"plain {name}"))
        times = plain.pop("seconds"), ours.pop("seconds")
        shown = [f"{show_number(plain[key], 'seconds')} / {show_number(ours[key], 'seconds')}" for key in ours]
        both = [show_number(one, "seconds") for one in times]
        rows.append((what, *both, f"**{times[0] / times[1]:.1f}**", *shown))
    header = ("plain loop, s", "ours, s", "times faster", "first step, s", "peak GPU, GB", "an answer, ms")
    return table(("what learns", *header), rows)


def _timed(cells: Sequence[Measured], name: str) -> dict[str, float]:
    """Costs of the last snapshot of a cell, means over the timed seeds.

    Raises:
        BertVisionError: the cell was not measured, or not timed.
    """
    cell = next((one for one in cells if one.name == name and one.models), None)
    if cell is None:
        raise BertVisionError(f"'{name}' was not measured: bertvision bench rival --data DIR")
    results = [entry["result"] for entry in cell.entries.values()]
    last = [one["models"][cell.models[-1]] for one in results]
    costs = {
        "seconds": [one["seconds"] for one in last],
        "first": [one["first_step_seconds"] for one in results],
        "peak": [None if one["peak_bytes"] is None else one["peak_bytes"] / GIGABYTE for one in results],
        "answer": [None if one["inference_seconds"] is None else one["inference_seconds"] / MILLI for one in last],
    }
    means = {key: mean_and_spread([one for one in values if one is not None])[0] for key, values in costs.items()}
    if None in means.values():
        raise BertVisionError(f"'{name}' was not timed: bertvision bench rival --data DIR")
    return {key: mean for key, mean in means.items() if mean is not None}


def limits_table(results: Path = RESULTS) -> str:
    """Throughput of ours and of plain loops as a share of the GPU's peak."""
    peak = HARDWARE["h200"].peak
    rows = [
        (one.what, one.who, f"{one.windows:,.0f}", f"{one.operations / 1e12:,.0f}", f"{one.operations / peak:.0%}")
        for one in gpu_rates(results)
    ]
    limit = f"of {peak / 1e12:,.0f} TFLOP/s"
    return table(("what", "who", "windows per second", "TFLOP/s", limit), rows)


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record
