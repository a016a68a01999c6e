"""Records of speed and size: one JSON file per benchmark, with its command and provenance."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertvision.atomic import write_json
from bertvision.bench.measure import Comparison, Timing
from bertvision.provenance import provenance

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The claim that a benchmark of speed or size tests.

    Attributes:
        name: name of the record.
        what: description in the table.
        command: command that repeats the benchmark.
        size: amount of work, in words.
        targets: by baseline, how many times as fast or as small ours has to be at least.
    """

    name: str
    what: str
    command: str
    size: str
    targets: Mapping[str, float]


def write_speed_record(
    folder: Path, claim: Claim, timings: Mapping[str, Timing], comparisons: Mapping[str, Comparison]
) -> Path:
    """Write the record of a speed benchmark, with ratios by baseline, to `folder`, and return its path."""
    ratios = {
        name: {"median": round(c.ratio, 2), "least": round(c.least, 2), "most": round(c.most, 2)}
        for name, c in comparisons.items()
    }
    seconds = {name: [round(value, 5) for value in timing.seconds] for name, timing in timings.items()}
    return _write(folder, "speed", claim, {"ratios": ratios, "seconds": seconds})


def write_size_record(folder: Path, claim: Claim, sizes: Mapping[str, int]) -> Path:
    """Write the record of a size benchmark, in bytes by name with `ours` among them, to `folder`; return its path."""
    ratios = {name: round(size / sizes["ours"], 2) for name, size in sizes.items() if name != "ours"}
    return _write(folder, "size", claim, {"ratios": ratios, "bytes": dict(sizes)})


def _write(folder: Path, kind: str, claim: Claim, values: Mapping[str, object]) -> Path:
    path = folder / f"{claim.name}.json"
    content = {
        "format": FORMAT,
        "kind": kind,
        "name": claim.name,
        "what": claim.what,
        "command": claim.command,
        "size": claim.size,
        "targets": dict(claim.targets),
        **values,
        "provenance": provenance(),
    }
    write_json(path, content)
    return path
