"""write_markdown: the report in Markdown; figures become tables."""

import re
from collections.abc import Iterable, Sequence

from bertvision.report.document import Cell, Figure, Record, Report, Section


def write_markdown(report: Report) -> str:
    """The whole report in Markdown."""
    parts = [f"# {plain(report.title)}", plain(report.lead)]
    group = ""
    for section in report.sections:
        if section.group and section.group != group:
            parts.append(f"## {plain(section.group)}")
        group = section.group
        parts += _section(section)
    parts += ["## Records", *(_record(record) for record in report.records)]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> list[str]:
    level = "###" if section.group else "##"
    parts = [f"{level} {plain(section.title)}", *(plain(text) for text in section.text)]
    for block in section.blocks:
        table = block.table() if isinstance(block, Figure) else block
        parts += [f"**{plain(block.title)}**", markdown_table(table.columns, table.rows)]
        note = block.caption if isinstance(block, Figure) else block.note
        parts += [plain(note)] if note else []
    return parts


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, links: bool = True) -> str:
    """A Markdown table; `links` links cells to records and files, which must then be in the same file or folder."""
    lines = [_row(plain(column) for column in columns), _row("---" for _ in columns)]
    lines += [_row(_cell(cell, links=links) for cell in row) for row in rows]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell, *, links: bool) -> str:
    text = plain(cell.text)
    if links and cell.target is not None and text:
        text = f"[{text}]({cell.target})"
    return f"**{text}**" if cell.strong and text else text


def plain(text: str) -> str:
    """Escape a text for Markdown; white space is collapsed to keep it on one line."""
    escaped = re.sub(r"([\\`*_{}\[\]<>|#~$&])", r"\\\1", " ".join(text.split()))
    unlisted = re.sub(r"^([-+=])(?=\s|$)", r"\\\1", escaped)  # would begin a list, or underline a heading
    return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", unlisted)  # would begin a numbered list


def code(text: str) -> str:
    """A text as inline code, delimited by more backticks than it contains in a row."""
    flat = " ".join(text.split())
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", flat)), default=0))
    return f"{ticks} {flat} {ticks}" if "`" in flat else f"`{flat}`"


def _record(record: Record) -> str:
    lines = [f'<a id="{record.key}"></a>', "", f"**{plain(record.kind)}** {code(record.path)}", ""]
    lines.append(f"- command: {code(record.command)}" if record.command is not None else "- command: not kept")
    lines += [f"- {plain(name)}: {plain(value)}" for name, value in (*record.facts.items(), *record.where())]
    return "\n".join(lines)
