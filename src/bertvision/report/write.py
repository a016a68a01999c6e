"""write_report: finished runs → a folder with an HTML page, Markdown, LaTeX tables and model cards."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bertvision.atomic import whole_folder, write_text
from bertvision.errors import BertVisionError
from bertvision.lock import lock_folder
from bertvision.report.build import build_report
from bertvision.report.card import write_card
from bertvision.report.document import Report
from bertvision.report.groups import group_runs
from bertvision.report.html import GENERATOR, write_html
from bertvision.report.latex import write_latex
from bertvision.report.markdown import write_markdown
from bertvision.report.read_runs import read_runs

PAGE, MARKDOWN, TABLES, CARDS = "index.html", "report.md", "tables", "cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult:
    """The result of `write_report`.

    Attributes:
        folder: of the report.
        page: the HTML page in it.
        files: all files, relative to the folder.
        report: the content.
    """

    folder: Path
    page: Path
    files: tuple[str, ...]
    report: Report


def write_report(runs: Sequence[str | Path], out: str | Path, *, title: str = "") -> ReportResult:
    """Write a report about finished runs; an older report in the folder is replaced at the end.

    Args:
        runs: folders of fits, tuned runs, searches or ensembles, or folders with several runs.
        out: folder of the report.
        title: heading; if empty, the names of the tasks.

    Raises:
        BertVisionError: no run is named, a run is not finished, a record is damaged or stale, `out` exists and is not a
            report, or it cannot be written.
    """
    folder = Path(out)
    _check_place(folder)
    found = read_runs(runs)
    report = build_report(found, title=title)
    files = {PAGE: write_html(report), MARKDOWN: write_markdown(report)}
    files |= {f"{TABLES}/{table.key}.tex": write_latex(table, report) for table in report.tables()}
    for group in group_runs(found):
        files |= {f"{CARDS}/{run.place}/README.md": write_card(run, group) for run in group.runs}
    with (
        lock_folder(folder.absolute().parent, wait=True),  # another process may write the same report
        whole_folder(folder, "the report", otherwise="Make room, or use another --out.") as part,
    ):
        for name, text in files.items():
            write_text(part / name, text)
    return ReportResult(folder=folder, page=folder / PAGE, files=tuple(files), report=report)


def _check_place(folder: Path) -> None:
    """Refuse to replace a file, or a folder that is neither empty nor a report."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    page = folder / PAGE
    if not page.is_file() or f'content="{GENERATOR}"' not in page.read_text(encoding="utf-8", errors="replace"):
        raise BertVisionError(f"{folder} is there already and is no report. Use another --out.")
