"""The content of a report, for all output formats: sections of tables and figures, and the records they come from."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertvision.report.numbers import NOTHING, Unit, show_difference, show_interval, show_number
from bertvision.report.plots import Plot


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: what is shown, the same in every format of the report.
        order: sort key; a cell with None is sorted last.
        record: key of the record that it comes from, and links to.
        model: name in the palette, such as a head's, whose colour and mark are shown before the text; None shows none.
        strong: whether it is in bold.
        file: file of the report that it links to if `record` is None.
    """

    text: str
    order: float | str | None = None
    record: str | None = None
    model: str | None = None
    strong: bool = False
    file: str | None = None

    @property
    def target(self) -> str | None:
        """Target of its link: a record or a file; None without a link."""
        return f"#{self.record}" if self.record is not None else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        key: its id on the page, and the name of its LaTeX file.
        title: one line about its content.
        columns: headers.
        rows: each with as many cells as columns.
        note: how to read it.
        cards: whether the page shows every row as a card instead of a table row.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    cards: bool = False

    def is_numeric(self, column: int) -> bool:
        """Whether a column holds numbers only (cells without a value aside); those are right-aligned."""
        cells = [row[column] for row in self.rows if row[column].text not in ("", NOTHING)]
        return bool(cells) and all(isinstance(cell.order, float) for cell in cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot, which is also available as a table, for screen readers and for formats without pictures.

    Attributes:
        key: its id on the page.
        title: one line about its content.
        caption: how to read it.
        plot: the plot.
        record: key of the record that it comes from; None if its points have different records.
    """

    key: str
    title: str
    caption: str
    plot: Plot
    record: str | None = None

    def table(self) -> Table:
        """The numbers of the plot."""
        columns, rows = self.plot.rows()
        cells = tuple(
            tuple(
                text_cell(value)
                if isinstance(value, str)
                else number_cell(value[0], value[1], record=value[2] or self.record)
                for value in row
            )
            for row in rows
        )
        return Table(key=f"{self.key}-data", title=f"{self.title}: the numbers", columns=tuple(columns), rows=cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of the report.

    Attributes:
        key: its id on the page.
        title: heading.
        group: heading above this one, shared with neighbouring sections (of one task); empty if there is none.
        text: paragraphs before the first block.
        blocks: tables and figures, in order.
    """

    key: str
    title: str
    group: str = ""
    text: tuple[str, ...] = ()
    blocks: tuple[Table | Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A file that numbers come from.

    Attributes:
        key: its id on the page.
        kind: of the file: fit, tuned run, evaluation, ensemble, analysis, freeze points, labels or search.
        path: path of the file.
        command: the command that made it; None if it is unknown.
        facts: further information, by name.
        provenance: see `bertvision.provenance.provenance`.
    """

    key: str
    kind: str
    path: str
    command: str | None
    facts: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def where(self) -> list[tuple[str, str]]:
        """The provenance as pairs of name and text, without the command, which is shown separately."""
        facts = []
        for name, value in self.provenance.items():
            if name == "packages" and isinstance(value, dict):
                facts.append((name, ", ".join(f"{package} {version}" for package, version in value.items())))
            elif name == "dirty":
                facts.append(("tree", {True: "changed since the commit", False: "clean"}.get(value, "unknown")))
            elif name != "command" and value is not None:
                facts.append((name, str(value)))
        return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole report.

    Attributes:
        title: heading.
        lead: one sentence below it.
        sections: in order.
        records: the records that numbers come from.
        models: the names of the palette: every name with a colour of its own, in the order of the colours.
    """

    title: str
    lead: str
    sections: tuple[Section, ...]
    records: tuple[Record, ...]
    models: tuple[str, ...]

    def tables(self) -> list[Table]:
        """All tables, without those of figures."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Table)]

    def figures(self) -> list[Figure]:
        """All figures."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]


def text_cell(text: object, *, model: str | None = None, record: str | None = None) -> Cell:
    """A cell with text, sorted alphabetically."""
    return Cell(text=str(text), order=str(text).lower(), model=model, record=record)


def number_cell(value: float | None, unit: Unit = "number", *, record: str | None = None, strong: bool = False) -> Cell:
    """A cell with a number; a dash for None and for numbers that are not finite."""
    text = show_number(value, unit)
    known = value is not None and text != NOTHING
    return Cell(text=text, order=float(value) if known and value is not None else None, record=record, strong=strong)


def interval_cell(low: float | None, high: float | None, unit: Unit, *, record: str | None = None) -> Cell:
    """A cell with an interval, sorted by its lower end."""
    return Cell(text=show_interval(low, high, unit), order=None if low is None else float(low), record=record)


def difference_cell(value: float | None, unit: Unit, *, record: str | None = None, strong: bool = False) -> Cell:
    """A cell with a difference, which has a sign."""
    order = None if value is None else float(value)
    return Cell(text=show_difference(value, unit), order=order, record=record, strong=strong)


def without_empty(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, constant: Container[str] = ()
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Drop the columns that are empty in all rows; columns in `constant` also if all rows have the same value.

    The first column is always kept.

    Returns:
        The remaining columns, and the rows with the remaining cells.
    """
    listed = list(rows)

    def is_kept(place: int) -> bool:
        texts = {row[place].text for row in listed}
        return bool(texts - {"", NOTHING}) and (columns[place] not in constant or len(texts) > 1)

    kept = [place for place in range(len(columns)) if place == 0 or is_kept(place)]
    return tuple(columns[place] for place in kept), tuple(tuple(row[place] for place in kept) for row in listed)


def slug(text: str, taken: Container[str] = ()) -> str:
    """A text as a file name or id, of lower-case letters, digits and dashes; numbered if it is in `taken`."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
    number = 1
    name = plain
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name
