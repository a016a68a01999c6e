"""What a report says, before anybody writes it down: sections of tables and figures, and the records behind them."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bertvision.report.numbers import NOTHING, Unit, show_difference, show_interval, show_number
from bertvision.report.plots import Plot


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A place in a table.

    Attributes:
        text: the same in every form of the report.
        order: what the table is sorted by; None comes last.
        record: key of the record that it comes from.
        model: name whose colour stands before it, such as a head's.
        strong: whether it is to stand out.
        file: file of the report that it leads to.
    """

    text: str
    order: float | str | None = None
    record: str | None = None
    model: str | None = None
    strong: bool = False
    file: str | None = None

    @property
    def target(self) -> str | None:
        """What it leads to: a record, or a file."""
        return f"#{self.record}" if self.record is not None else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under headers.

    Attributes:
        key: name of its file and of its place on the page.
        title: what it shows, in a line.
        columns: headers.
        rows: as many cells as columns.
        note: how to read it.
        cards: whether the page shows every row as a card of its own.
    """

    key: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    cards: bool = False

    def is_numeric(self, column: int) -> bool:
        """Whether a column holds numbers, which stand to the right."""
        cells = [row[column] for row in self.rows if row[column].text not in ("", NOTHING)]
        return bool(cells) and all(isinstance(cell.order, float) for cell in cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A plot, with what it shows as a table for those who do not see it.

    Attributes:
        key: its place on the page.
        title: what it shows, in a line.
        caption: how to read it.
        plot: what is drawn.
        record: key of the record that it comes from; None where its points have records of their own.
    """

    key: str
    title: str
    caption: str
    plot: Plot
    record: str | None = None

    def table(self) -> Table:
        """The numbers that are drawn."""
        columns, rows = self.plot.rows()
        cells = tuple(
            tuple(
                text_cell(one) if isinstance(one, str) else number_cell(one[0], one[1], record=one[2] or self.record)
                for one in row
            )
            for row in rows
        )
        return Table(key=f"{self.key}-data", title=f"{self.title}: the numbers", columns=tuple(columns), rows=cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the report under a heading.

    Attributes:
        key: its place on the page.
        title: heading.
        group: heading that it shares with its neighbours; empty where it stands alone.
        text: paragraphs before the first table.
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
        key: its place on the page.
        kind: what it is: run, evaluation, ensemble, analysis, freeze points.
        path: path of the file.
        command: the command that made it, or repeats it; None where nobody kept it.
        facts: what else there is to know, by name.
        provenance: where it was made.
    """

    key: str
    kind: str
    path: str
    command: str | None
    facts: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def where(self) -> list[tuple[str, str]]:
        """Where it was made, in words; the command stands elsewhere."""
        told = []
        for name, value in self.provenance.items():
            if name == "packages" and isinstance(value, dict):
                told.append((name, ", ".join(f"{package} {version}" for package, version in value.items())))
            elif name == "dirty":
                told.append(("tree", {True: "changed since the commit", False: "clean"}.get(value, "unknown")))
            elif name != "command" and value is not None:
                told.append((name, str(value)))
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All of it.

    Attributes:
        title: heading.
        lead: what it is about, in a sentence.
        sections: in order.
        records: the records that numbers come from.
        models: every name that has a colour, in the order of the colours.
    """

    title: str
    lead: str
    sections: tuple[Section, ...]
    records: tuple[Record, ...]
    models: tuple[str, ...]

    def tables(self) -> list[Table]:
        """Every table, those of figures left out."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Table)]

    def figures(self) -> list[Figure]:
        """Every figure."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, Figure)]


def text_cell(text: object, *, model: str | None = None, record: str | None = None) -> Cell:
    """A cell of words."""
    return Cell(text=str(text), order=str(text).lower(), model=model, record=record)


def number_cell(value: float | None, unit: Unit = "number", *, record: str | None = None, strong: bool = False) -> Cell:
    """A cell with a number."""
    text = show_number(value, unit)
    known = value is not None and text != NOTHING
    return Cell(text=text, order=float(value) if known and value is not None else None, record=record, strong=strong)


def interval_cell(low: float | None, high: float | None, unit: Unit, *, record: str | None = None) -> Cell:
    """A cell with an interval, sorted by its lower end."""
    return Cell(text=show_interval(low, high, unit), order=None if low is None else float(low), record=record)


def difference_cell(value: float | None, unit: Unit, *, record: str | None = None, strong: bool = False) -> Cell:
    """A cell with a difference."""
    order = None if value is None else float(value)
    return Cell(text=show_difference(value, unit), order=order, record=record, strong=strong)


def without_empty(
    columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, alike: Container[str] = ()
) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Columns and rows without the columns that say nothing in any row, or in `alike` the same in all."""
    listed = list(rows)

    def says(place: int) -> bool:
        texts = {row[place].text for row in listed}
        return bool(texts - {"", NOTHING}) and (columns[place] not in alike or len(texts) > 1)

    kept = [place for place in range(len(columns)) if place == 0 or says(place)]
    return tuple(columns[place] for place in kept), tuple(tuple(row[place] for place in kept) for row in listed)


def slug(text: str, taken: Container[str] = ()) -> str:
    """A text as a name of a file and of a place on the page, unlike those that are taken."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
    number = 1
    name = plain
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    return name
