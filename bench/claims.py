"""Figures and claims of the documents beside ours, as far as those are measured, and whether they hold → Markdown."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bertvision.bench.compare import Measured, find_model
from bertvision.bench.tables import which_way
from bertvision.runs.judging.judge import FITTED, PLAIN, ZERO
from markdown_tables import table
from tables_of_heads import against, scores_of
from verdicts import Says, verdict


class Figure(NamedTuple):
    """What a document has, its figure, and our model: `CELL:MODEL`, or a cell that has one model."""

    what: str
    there: str
    model: str


class Claim(NamedTuple):
    """What a document says of a model against another, its difference, our two, and what that claims, if anything."""

    what: str
    there: str
    first: str
    second: str
    says: Says | None


Row = Sequence[str]
HERE = {ZERO: "here, threshold 0", FITTED: "here, fitted", PLAIN: "here"}


def missing(cells: Sequence[Measured], models: Iterable[str]) -> list[str]:
    """The cells of those models that are not measured."""
    return list(dict.fromkeys(one.partition(":")[0] for one in models if find_model(cells, one) is None))


def figure_rows(cells: Sequence[Measured], figures: Iterable[Figure], at: Sequence[str]) -> list[Row]:
    """Figures of a document and ours, as far as those are measured."""
    found = [(one, find_model(cells, one.model)) for one in figures]
    return [(one.what, one.there, *scores_of(*model, at)) for one, model in found if model is not None]


def claim_row(cells: Sequence[Measured], one: Claim, at: Sequence[str]) -> Row:
    """A document's difference, ours, and whether the claim holds; labels, without threshold, have one difference."""
    found = against(cells, one.first, one.second)
    judged = "" if one.says is None else verdict([found.sure], one.says)
    return (one.what, one.there, *found.cells[-len(at) :], which_way(found.fitted), judged)


def beside(
    cells: Sequence[Measured],
    figures: Sequence[Figure],
    claims: Sequence[Claim],
    more: Sequence[Row] = (),
    at: Sequence[str] = (ZERO, FITTED),
) -> str:
    """Figures, and claims with further rows, as far as they are measured, and which cells are not."""
    here = [HERE[which] for which in at]
    shown = figure_rows(cells, figures, at)
    judged = [claim_row(cells, one, at) for one in claims if not missing(cells, (one.first, one.second))]
    models = [one.model for one in figures] + [side for one in claims for side in (one.first, one.second)]
    absent = ", ".join(f"`{name}`" for name in missing(cells, models))
    parts = [table(("what", "there", *here), shown)] if shown else []
    if judged or more:
        heading = "the document says" if more or any(one.says for one in claims) else "compared"
        parts.append(table((heading, "there", *here, "here is", "the claim"), [*judged, *more]))
    return "\n\n".join([*parts, *([f"Not measured yet: {absent}."] if absent else [])])
