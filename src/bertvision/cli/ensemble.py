"""`bertvision ensemble`: combine several models into one, and score it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertvision.amounts import in_words
from bertvision.cli.evaluate import print_scores
from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes
from bertvision.cli.split_options import ResampledOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(ResampledOptions):
    """Options of `bertvision ensemble`."""

    runs: tuple[str, ...]
    """Finished runs of one task: RUN of fit, or RUN or RUN@0.3 (a snapshot) of tune."""

    how: Literal["max", "mean", "greedy"] = "mean"
    """How to combine the members: 'max' takes the largest probability of each token or class, 'mean' the mean of the
    log probabilities, 'greedy' the mean of members selected, also repeatedly, on held-out training examples."""

    heads: str | None = None
    """Members, separated by commas: names of heads, folders of heads such as 000-layer_mix, or own_output (default:
    all)."""

    out: Path | None = None
    """Folder for the ensemble (default: inside the first run)."""


def run(options: Options) -> int:
    """Combine."""
    from bertvision.runs.judging.ensemble import ensemble  # noqa: PLC0415 - imports torch, and help should open at once

    heads = None if options.heads is None else [name.strip() for name in options.heads.split(",") if name.strip()]
    with ProgressBar("ensemble") as bar:
        result = ensemble(
            options.runs,
            how=options.how,
            heads=heads,
            **options.resampled_fields(),
            out=options.out,
            show=bar.show,
        )
    print_notes(result.notices)
    if options.json:
        print_json(result.record.as_json())
        return 0
    record = result.record
    used = record.used
    count = in_words(record.examples, "example")
    title = f"{record.how} of {in_words(len(used), 'member')}: {record.task} {record.split}, {count}"
    rows = [record.ensemble, *(member.row for member in record.members)]
    print_scores(title, rows, kind=record.kind, split=record.split, against=record.against)
    if record.how == "greedy":
        print_lines(f"weight {member.weight:.3f}  {member.row.name}" for member in used)
    print_lines([f"Record and answers are in {result.folder}"])
    return 0
