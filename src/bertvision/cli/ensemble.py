"""`bertvision ensemble`: several models in, one out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.cli.evaluate import print_scores
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_note


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision ensemble`."""

    runs: tuple[str, ...]
    """Finished runs of one task: RUN of fit, RUN or RUN@0.3 of tune."""

    how: Literal["max", "mean", "greedy"] = "mean"
    """How members become one: 'max' takes the largest probability of each token or class, 'mean' the mean of the
    logarithms, 'greedy' the mean of members chosen, also repeatedly, on held-out training examples."""

    heads: str | None = None
    """Members, separated by commas: a head's name, its folder's such as 000-layer_mix, or own_output (default: all)."""

    data: str | None = None
    """Where the split is: a folder or file, 'hub', 'hub:NAME' or 'builtin' (default: the data of the runs)."""

    split: str = "dev"
    """Which split to judge by."""

    bootstrap: int = 1000
    """Resamples for 95 % intervals and for the paired test against the member that is best on held-out examples."""

    seed: int = 0
    """Of the resampling."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    out: Path | None = None
    """Folder of the ensemble (default: below the first run)."""

    json: bool = False
    """Print the record as JSON."""


def run(options: Options) -> int:
    """Join."""
    from bertvision.runs.ensemble import ensemble  # noqa: PLC0415 - imports torch, and help should open at once

    heads = None if options.heads is None else [name.strip() for name in options.heads.split(",") if name.strip()]
    with ProgressBar("ensemble") as bar:
        result = ensemble(
            options.runs,
            how=options.how,
            heads=heads,
            data=options.data,
            split=options.split,
            resamples=options.bootstrap,
            seed=options.seed,
            device=options.device,
            out=options.out,
            show=bar.show,
        )
    for notice in result.notices:
        print_note(notice)
    if options.json:
        print_json(result.record.as_json())
        return 0
    record = result.record
    used = [member for member in record.members if member.weight > 0.0]
    members = "1 member" if len(used) == 1 else f"{len(used)} members"
    title = f"{record.how} of {members}: {record.task} {record.split}, {record.examples:,} examples"
    rows = [record.ensemble, *(member.row for member in record.members)]
    print_scores(title, rows, kind=record.kind, split=record.split, against=record.against)
    if record.how == "greedy":
        print_lines(f"weight {member.weight:.3f}  {member.row.name}" for member in used)
    print_lines([f"Record and answers are in {result.folder}"])
    return 0
