"""`bertvision analyse`: show where a run's models fail, which layers they read and how well calibrated they are."""

from dataclasses import dataclass

from bertvision.cli.output import ProgressBar, print_json, print_lines, print_notes
from bertvision.cli.split_options import SplitOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(SplitOptions):
    """Options of `bertvision analyse`."""

    run: str
    """Finished run: RUN of fit, or RUN or RUN@0.3 (a snapshot) of tune."""

    question: str | None = None
    """Id of an example, to show how much heads with attention over layers attend to each layer for it."""


def run(options: Options) -> int:
    """Analyse."""
    from bertvision.cli.analysis_tables import print_analysis  # noqa: PLC0415 - imports torch
    from bertvision.runs.analysing.analyse import analyse  # noqa: PLC0415 - imports torch, and help should open at once

    with ProgressBar(f"analyse {options.run}") as bar:
        result = analyse(options.run, question=options.question, **options.split_fields(), show=bar.show)
    print_notes(result.notices)
    if options.json:
        print_json(result.record.as_json())
        return 0
    print_analysis(result.record)
    files = "analysis.json" if result.record.errors is None else f"analysis.json and {result.record.errors}"
    print_lines([f"{files}: in {result.folder}"])
    return 0
