"""write_latex: tables of the report in LaTeX, for papers; they need the package booktabs."""

import re

from bertvision.report.document import Cell, Report, Table

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    "\N{MINUS SIGN}": "$-$",
    "\N{EN DASH}": "--",
    "…": r"\ldots{}",
    "₁₀": "$_{10}$",
    **{sign: f"\\{sign}" for sign in "&%$#_"},
}
"""LaTeX for characters that have a meaning in LaTeX or no glyph in its fonts."""


def write_latex(table: Table, report: Report) -> str:
    """A `table` environment with caption and label, preceded by comments that name the records of its numbers."""
    paths = {record.key: record for record in report.records}
    keys = dict.fromkeys(cell.record for row in table.rows for cell in row if cell.record is not None)
    comments = [f"% {_line(paths[key].path)}: {_line(paths[key].command or 'command not kept')}" for key in keys]
    kinds = "".join("r" if table.is_numeric(place) else "l" for place in range(len(table.columns)))
    lines = [
        *comments,
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(table.title)}}}",
        rf"\label{{tab:{table.key}}}",
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        " & ".join(escape_latex(column) for column in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(_cell(cell) for cell in row) + r" \\" for row in table.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _cell(cell: Cell) -> str:
    text = escape_latex(cell.text)
    return rf"\textbf{{{text}}}" if cell.strong else text


def escape_latex(text: str) -> str:
    """Escape a text for LaTeX; white space is collapsed."""
    pattern = "|".join(re.escape(sign) for sign in sorted(SPECIAL, key=len, reverse=True))
    return re.sub(pattern, lambda match: SPECIAL[match.group()], " ".join(text.split()))


def _line(text: str) -> str:
    return " ".join(text.split())
