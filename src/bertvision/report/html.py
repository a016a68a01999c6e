"""write_html: the report as one self-contained, accessible HTML page that loads nothing from elsewhere."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from bertvision.report.document import Cell, Figure, Record, Report, Section, Table
from bertvision.report.plots import Key
from bertvision.report.svg import Palette, element

GENERATOR = "bertvision report"
"""Content of the page's `generator` tag; only a folder whose page has it is replaced by a new report."""

WIDE = 40
"""Cells with more characters than this may wrap."""

BRAND = (
    '<svg viewBox="0 0 34 30" aria-hidden="true">'
    '<g class="mark c2"><rect x="1" y="21" width="32" height="7" rx="3"/></g>'
    '<g class="mark c4"><rect x="5" y="12" width="24" height="7" rx="3"/></g>'
    '<g class="mark c3"><rect x="10" y="3" width="14" height="7" rx="3"/></g></svg>'
)


def write_html(report: Report) -> str:
    """The HTML page of a report."""
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    # nothing is loaded, and only this style and script run, even if some text were not escaped
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    palette = Palette(report.models)
    body = "".join(_groups(report.sections, palette))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="{GENERATOR}">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(report.title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">Skip to the results</a>\n'
        f'<header class="hero"><div><p class="brand">{BRAND}BERTVision</p>{_theme()}'
        f'<h1>{escape(report.title)}</h1><p class="lead">{escape(report.lead)}</p></div></header>\n'
        f'<div class="frame">\n{_contents(report)}\n<main id="main" tabindex="-1">\n{body}{_records(report.records)}'
        '</main>\n</div>\n<footer><p class="unseen" id="said" role="status"></p>'
        "Everything on this page is in this file. Numbers link to their records.</footer>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return (files("bertvision.report") / "page" / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _theme() -> str:
    choices = "".join(
        f'<label><input type="radio" name="theme" id="theme-{name}" value="{name}"{chosen}>{name.capitalize()}</label>'
        for name, chosen in (("auto", " checked"), ("light", ""), ("dark", ""))
    )
    return f'<fieldset class="theme"><legend class="unseen">Theme</legend>{choices}</fieldset>'


def _contents(report: Report) -> str:
    items = []
    for group, sections in _by_group(report.sections):
        first = sections[0]
        if not group:
            items.append(f'<li><a class="top" href="#{first.key}">{escape(first.title)}</a></li>')
            continue
        links = "".join(f'<li><a href="#{section.key}">{escape(section.title)}</a></li>' for section in sections)
        items.append(f'<li><a class="top" href="#group-{first.key}">{escape(group)}</a><ul>{links}</ul></li>')
    items.append('<li><a class="top" href="#records">Records</a></li>')
    return f'<nav aria-label="Contents"><ul>{"".join(items)}</ul></nav>'


def _by_group(sections: Sequence[Section]) -> list[tuple[str, list[Section]]]:
    grouped: list[tuple[str, list[Section]]] = []
    for section in sections:
        if grouped and section.group and grouped[-1][0] == section.group:
            grouped[-1][1].append(section)
        else:
            grouped.append((section.group, [section]))
    return grouped


def _groups(sections: Sequence[Section], palette: Palette) -> Iterable[str]:
    for group, listed in _by_group(sections):
        if not group:
            section = listed[0]
            yield f'<section id="{section.key}" aria-labelledby="{section.key}-h"><h2 id="{section.key}-h">'
            yield f"{escape(section.title)}</h2>{_inside(section, palette)}</section>\n"
            continue
        key = f"group-{listed[0].key}"
        yield f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{escape(group)}</h2>'
        for section in listed:
            yield f'<h3 id="{section.key}">{escape(section.title)}</h3>{_inside(section, palette)}'
        yield "</section>\n"


def _inside(section: Section, palette: Palette) -> str:
    """Content of a section: paragraphs, cards, figures, then tables."""
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in section.text)
    cards = "".join(_cards(b, palette) for b in section.blocks if isinstance(b, Table) and b.cards)
    figures = "".join(_figure(b, palette) for b in section.blocks if isinstance(b, Figure))
    tables = "".join(_block(b, palette) for b in section.blocks if isinstance(b, Table) and not b.cards)
    return paragraphs + cards + (f'<div class="figures">{figures}</div>' if figures else "") + tables


def _cards(table: Table, palette: Palette) -> str:
    """Every row as a card: heading, large number, its interval, metric and model, and the other columns as a list."""
    items = []
    for heading, large, interval, metric, model, *rest in table.rows:
        facts = "".join(
            f"<dt>{escape(column)}</dt><dd>{_inner(cell, palette)}</dd>"
            for column, cell in zip(table.columns[5:], rest, strict=True)
        )
        beside = f"{_inner(metric, palette)}<br>95 % interval {_inner(interval, palette)}"
        items.append(
            f'<li class="card"><h4>{escape(heading.text)}</h4><p class="big">{_inner(large, palette)}</p>'
            f'<p class="beside">{beside}</p><p class="who">{_inner(model, palette)}</p><dl>{facts}</dl></li>'
        )
    title = f'<h3 id="{table.key}">{escape(table.title)}</h3>'
    return f'{title}<ul class="cards">{"".join(items)}</ul><p>{escape(table.note)}</p>'


def _figure(figure: Figure, palette: Palette) -> str:
    drawn = figure.plot.draw(palette, key=figure.key, title=figure.title)
    legend = "".join(f"<li>{_key(entry, palette)}{escape(entry.label)}</li>" for entry in figure.plot.legend())
    listed = f'<ul class="legend">{legend}</ul>' if legend else ""
    source = f' <a href="#{figure.record}">Record</a>' if figure.record else ""
    return (
        f'<figure id="{figure.key}"><figcaption><h4>{escape(figure.title)}</h4>{escape(figure.caption)}{source}'
        f"</figcaption>{drawn}{listed}<details><summary>The numbers as a table</summary>"
        f"{_scroll(figure.table(), palette)}</details></figure>"
    )


def _block(table: Table, palette: Palette) -> str:
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<div class="block" id="{table.key}">{_scroll(table, palette)}{note}</div>'


def _scroll(table: Table, palette: Palette) -> str:
    """A sortable table in a box that scrolls horizontally, and can be focused to scroll by keyboard."""
    numeric = [table.is_numeric(place) for place in range(len(table.columns))]
    heads = "".join(
        f'<th scope="col" aria-sort="none"{" class=num" if of_numbers else ""}>'
        f'<button type="button">{escape(column)}</button></th>'
        for column, of_numbers in zip(table.columns, numeric, strict=True)
    )
    rows = "".join(
        f"<tr>{''.join(_cell(cell, place, numeric[place], palette) for place, cell in enumerate(row))}</tr>"
        for row in table.rows
    )
    caption = f'<caption id="{table.key}-c">{escape(table.title)}</caption>'
    inside = f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll" role="group" aria-labelledby="{table.key}-c" tabindex="0">{inside}</div>'


def _cell(cell: Cell, place: int, of_numbers: bool, palette: Palette) -> str:  # noqa: FBT001 - of a column
    name, scope = ("th", ' scope="row"') if place == 0 else ("td", "")
    order = "" if cell.order is None else f' data-order="{escape(str(cell.order))}"'
    kind = ' class="num"' if of_numbers else ' class="wide"' if len(cell.text) > WIDE else ""
    return f"<{name}{scope}{kind}{order}>{_inner(cell, palette)}</{name}>"


def _inner(cell: Cell, palette: Palette) -> str:
    shown = escape(cell.text)
    if cell.target is not None and cell.text:
        shown = f'<a href="{escape(cell.target)}">{shown}</a>'
    shown = f"<strong>{shown}</strong>" if cell.strong else shown
    return f"{_swatch(cell.model, palette)}{shown}" if cell.model is not None else shown


def _swatch(model: str, palette: Palette) -> str:
    return element("svg", palette.mark(model, 0.0, 0.0), viewBox="-8 -8 16 16", class_="swatch", aria_hidden="true")


def _key(key: Key, palette: Palette) -> str:
    """Sample of an entry of a legend: a mark, on a line of its dash pattern if it has one."""
    if key.dash is None:
        return _swatch(key.model, palette)
    stroke = element("line", x1=-20, x2=20, y1=0, y2=0, class_=f"line d{key.dash} {palette.classes(key.model)}")
    drawn = stroke + palette.mark(key.model, 0.0, 0.0)
    return element("svg", drawn, viewBox="-20 -8 40 16", class_="swatch long", aria_hidden="true")


def _records(records: Sequence[Record]) -> str:
    listed = "".join(_record(record) for record in records)
    lead = "<p>Where every number stands, what made it, and on which machine.</p>"
    return (
        f'<section id="records" aria-labelledby="records-h"><h2 id="records-h">Records</h2>{lead}{listed}</section>\n'
    )


def _record(record: Record) -> str:
    made = "<p>The command was not kept; what was asked for is below.</p>"
    if record.command is not None:
        made = f"<pre><code>{escape(record.command)}</code></pre>"
    facts = "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in record.facts.items())
    where = "".join(f"<dt>{escape(n)}</dt><dd>{escape(v)}</dd>" for n, v in record.where())
    heading = f"{record.kind} <code>{escape(record.path)}</code>"
    return (
        f'<article class="record" id="{record.key}" tabindex="-1"><h3>{heading}</h3>{made}<dl>{facts}</dl>'
        + (f"<details><summary>Where it was made</summary><dl>{where}</dl></details>" if where else "")
        + "</article>"
    )
