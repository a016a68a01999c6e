"""`bertvision report`: write a page and other formats from the results of finished runs."""

from dataclasses import dataclass
from pathlib import Path

from bertvision.cli.output import print_json, print_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of `bertvision report`."""

    runs: tuple[str, ...]
    """Finished runs of fit and tune; or folders of several runs, of searches, or of ensembles."""

    out: Path = Path("report")
    """Folder for the report; an older report in it is replaced."""

    title: str = ""
    """Heading of the page (default: the names of the tasks)."""

    json: bool = False
    """Print the folder, the page and all files as JSON."""


def run(options: Options) -> int:
    """Write the report."""
    from bertvision.report.write import write_report  # noqa: PLC0415 - imports torch, and help should open at once

    result = write_report(options.runs, options.out, title=options.title)
    if options.json:
        print_json({"folder": str(result.folder), "page": str(result.page), "files": list(result.files)})
        return 0
    tables, figures = len(result.report.tables()), result.report.figures()
    print_lines(
        [
            result.report.lead,
            f"{tables} tables, {len(figures)} figures, {len(result.report.records)} records.",
            f"Look at it: {result.page}",
        ]
    )
    return 0
