"""`bertvision analyse`: a run in, where its models fail and what they read out."""

from dataclasses import dataclass
from typing import Literal

from bertvision.cli.output import ProgressBar, print_json, print_lines, print_note


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision analyse`."""

    run: str
    """A finished run: RUN of fit, RUN or RUN@0.3 of tune."""

    data: str | None = None
    """Where the split is: a folder or file, 'hub', 'hub:NAME' or 'builtin' (default: the data of the run)."""

    split: str = "dev"
    """Which split; thresholds and temperatures are fitted on the training examples that the run held out."""

    question: str | None = None
    """Id of an example: how heads that attend to layers do so for it."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""

    json: bool = False
    """Print the record as JSON."""


def run(options: Options) -> int:
    """Analyse."""
    from bertvision.cli.analysis_tables import print_analysis  # noqa: PLC0415 - imports torch
    from bertvision.runs.analyse import analyse  # noqa: PLC0415 - imports torch, and help should open at once

    with ProgressBar(f"analyse {options.run}") as bar:
        result = analyse(
            options.run,
            data=options.data,
            split=options.split,
            question=options.question,
            device=options.device,
            show=bar.show,
        )
    for notice in result.notices:
        print_note(notice)
    if options.json:
        print_json(result.record.as_json())
        return 0
    print_analysis(result.record)
    files = "analysis.json" if result.record.errors is None else f"analysis.json and {result.record.errors}"
    print_lines([f"{files}: in {result.folder}"])
    return 0
